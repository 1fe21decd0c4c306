"""`headway lab`: experiments that check themselves, one for each claim of the lecture decks."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli import options
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.labs.frame import Lab

HELP = "experiments that check themselves, one for each claim of the lecture decks"
EXAMPLES = (
    "headway lab    the chapters, their labs and claims",
    "headway lab party --gamma 0.5 --guests 12",
    "headway lab party --help    the flags of a lab",
    "headway lab sentences --seed 1 --out labs --plot sentences.svg",
    "headway lab all --out course    every lab, and one page of what they found; continues where it was stopped",
    "headway lab party --exercise    party_exercise.py, in which one function is to be written",
    "headway lab party --bug --seed 1    party_bug.py, the same function with a fault to find",
    "headway lab check party_exercise.py    the lab's checks on your function; --hint 2 for more help",
    "headway lab party --notebook party.ipynb    the lab as a Jupyter notebook",
)
OWN_HELP = True  # `add_arguments` declares `-h` itself
ALL, CHECK = "all", "check"
OUT = "runs/labs"
ENDINGS = (".png", ".svg")
OTHERS = {"exercise": "--exercise", "bug": "--bug", "notebook": "--notebook"}  # write a file in place of running


class _LabHelp(Action):
    """`-h`: without a lab, the help of the command; after one, `execute` adds the lab's flags to it."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, *_: object) -> None:
        parser.print_help()
        if namespace.name is None:
            parser.exit()
        namespace.help = True


def add_arguments(parser: ArgumentParser) -> None:
    """Which lab, and the options of all labs; those of one lab are its own (`flags`)."""
    parser.add_argument(
        "-h", "--help", action=_LabHelp, nargs=0, default=False, help="this help; after NAME, its flags"
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a lab, `all`, or `check`; without it, the list of labs"
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="after `check`: a file that --exercise or --bug wrote")
    parser.add_argument(
        "--seed", type=options.count, default=0, metavar="N", help="of everything random (default: %(default)s)"
    )
    parser.add_argument(
        "--out", metavar="DIR", default=OUT, help="for figures (PNG, SVG) and values (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="a smaller version, in seconds")
    parser.add_argument(
        "--plot", metavar="FILE", help="also draw its first figure into this .png or .svg; - for stdout"
    )
    parser.add_argument(
        "--exercise", nargs="?", const="", metavar="FILE",
        help="write a Python file with the lab's core cut out, to be written by you (default: NAME_exercise.py)",
    )  # fmt: skip
    parser.add_argument(
        "--bug", nargs="?", const="", metavar="FILE",
        help="write a Python file with one planted fault, chosen by --seed (default: NAME_bug.py)",
    )  # fmt: skip
    parser.add_argument(
        "--hint", type=options.count, default=0, metavar="N", help="after `check`: give the first N hints"
    )
    parser.add_argument("--notebook", metavar="FILE", help="write the lab as a Jupyter notebook into this .ipynb")
    options.add_json(parser, "one object with the checks and tables on stdout")


def flags(arguments: Namespace) -> list[str]:
    """The flags that only the lab of this name has: `--gamma`."""
    from headway.labs.registry import LABS

    if arguments.name is None or arguments.name not in LABS:  # also `all` and `check`
        return []
    from headway.labs.frame import flag

    return [f"--{flag(each.path)}" for each in LABS[arguments.name].flags()]


def execute(arguments: Namespace) -> None:
    """Run a lab or all of them, or list them."""
    from headway.cli import lab_report
    from headway.labs.registry import lab

    _expect_together(arguments)
    if arguments.name is None:
        if arguments.overrides:
            raise ConfigError(f"{arguments.overrides[0]}: name a lab; `headway lab` lists them")
        lab_report.list_labs()
    elif arguments.help:  # that of the command is printed already
        if arguments.name not in (ALL, CHECK):
            lab_report.list_flags(lab(arguments.name))
    elif arguments.name == ALL:
        _run_all(arguments)
    elif arguments.name == CHECK:
        _check(arguments)
    elif arguments.exercise is not None or arguments.bug is not None:
        _write_exercise(lab(arguments.name), arguments)
    elif arguments.notebook is not None:
        _write_notebook(lab(arguments.name), arguments)
    else:
        _run_one(lab(arguments.name), arguments)


def _expect_together(arguments: Namespace) -> None:
    """Raise ConfigError for words that do not belong together."""
    given = [option for name, option in OTHERS.items() if getattr(arguments, name) is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)}: give one of them")
    if given and arguments.name in (None, ALL, CHECK):
        raise ConfigError(f"{given[0]}: name a lab, as in `headway lab party {given[0]}`; `headway lab` lists them")
    if arguments.name == CHECK and arguments.file is None and not arguments.help:
        raise ConfigError("lab check: name the file to check, as in `headway lab check party_exercise.py`")
    if arguments.name != CHECK and (arguments.file is not None or arguments.hint):
        what = f"--hint {arguments.hint}" if arguments.hint else arguments.file
        raise ConfigError(f"{what}: only after `headway lab check`")


def _write_exercise(found: Lab[Any], arguments: Namespace) -> None:
    from headway.cli.outputs import STDOUT, expect_outputs, write_output
    from headway.labs.exercise import bug_file, default_name, exercise_file, expect_exercise

    planted = arguments.bug is not None
    exercise = expect_exercise(found)
    _expect_no_flags(arguments, found.name)
    file = (arguments.bug if planted else arguments.exercise) or default_name(found, bug=planted)
    arguments.exercise = file  # to be checked as an output
    expect_outputs(arguments, exercise=(".py",))
    if file != STDOUT and Path(file).exists():
        raise ConfigError(f"{file} exists; name another file, or remove it: it may hold your work")
    shown = f"{found.name}.py" if file == STDOUT else file
    text = bug_file(found, exercise, shown, arguments.seed) if planted else exercise_file(found, exercise, shown)
    write_output(file, text, f"{file} written; edit it, then run `headway lab check {file}`")


def _write_notebook(found: Lab[Any], arguments: Namespace) -> None:
    from headway.cli.outputs import expect_outputs, write_output
    from headway.labs.notebook import notebook

    expect_outputs(arguments, notebook=(".ipynb",))
    parameters = found.with_flags(options.overrides_of(arguments.overrides))
    text = notebook(found, parameters, seed=arguments.seed, quick=arguments.quick)
    write_output(arguments.notebook, text, f"{arguments.notebook} written; open it with Jupyter and run its cells")


def _check(arguments: Namespace) -> None:
    from headway.cli import lab_report
    from headway.cli.outputs import expect_folder, expect_outputs, report_console, write_output
    from headway.cli.terminal import tell
    from headway.labs.exercise_check import check_exercise, count_try, line_in, read_exercise

    expect_outputs(arguments, plot=ENDINGS)
    expect_folder(arguments.out)
    _expect_no_flags(arguments, CHECK)
    path = Path(arguments.file)
    file = read_exercise(path)
    try:
        with lab_report.bar(file.lab.name), lab_report.prints_on_stderr(arguments.json):
            outcome = check_exercise(file, seed=arguments.seed)
    except KeyboardInterrupt as error:
        line = line_in(error, path)
        if line is not None:
            tell(f"stopped in {file.target.name} ({path}, line {line})")
        raise
    tries = 0 if outcome.passed else 1 if file.hole is not None else count_try(Path(arguments.out), file)
    hints = [] if outcome.passed else file.hints[: max(arguments.hint, tries)]
    if arguments.plot is not None and outcome.result is not None:
        drawn = outcome.result.outcome.figures[0]
        write_output(arguments.plot, drawn.svg if arguments.plot.endswith(".svg") else drawn.png)
    if arguments.json:
        lab_report.print_exercise_json(outcome, hints)
    else:
        lab_report.print_exercise(outcome, hints, report_console(arguments.plot))
    lab_report.expect_solved(outcome)


def _expect_no_flags(arguments: Namespace, name: str) -> None:
    if arguments.overrides:
        raise ConfigError(f"{arguments.overrides[0]}: an exercise uses lab {name} as it is, without flags of its own")


def _run_one(found: Lab[Any], arguments: Namespace) -> None:
    from headway.cli import lab_report
    from headway.cli.outputs import expect_folder, expect_outputs, report_console, write_output
    from headway.labs.course import save
    from headway.labs.frame import run_lab

    expect_outputs(arguments, plot=ENDINGS)
    expect_folder(arguments.out)
    parameters = found.with_flags(options.overrides_of(arguments.overrides))
    with lab_report.bar(found.name):
        result = run_lab(found, parameters, seed=arguments.seed, quick=arguments.quick)
    files = save(result, Path(arguments.out))
    if arguments.plot is not None:
        drawn = result.outcome.figures[0]
        write_output(arguments.plot, drawn.svg if arguments.plot.endswith(".svg") else drawn.png)
    if arguments.json:
        lab_report.print_json(result)
    else:
        lab_report.print_result(result, files, report_console(arguments.plot))
    lab_report.expect_passed(f"{found.name}: {check.name}" for check in result.failed)


def _run_all(arguments: Namespace) -> None:
    from headway.cli import lab_report
    from headway.cli.outputs import expect_folder
    from headway.labs.course import PAGE, failures, run_course
    from headway.labs.registry import LABS

    expect_folder(arguments.out)
    if arguments.overrides or arguments.plot is not None:
        given = "--plot" if arguments.plot is not None else arguments.overrides[0]
        raise ConfigError(f"{given}: `lab all` runs every lab as it is; allowed: --seed, --out, --quick, --json")
    folder = Path(arguments.out)
    with lab_report.course_bar(len(LABS)) as told:
        records = run_course(folder, seed=arguments.seed, quick=arguments.quick, told=told)
    if arguments.json:
        lab_report.print_course_json(records)
    else:
        lab_report.print_course(records, folder / PAGE)
    lab_report.expect_passed(failures(records))
