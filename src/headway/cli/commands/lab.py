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
)
OWN_HELP = True  # `add_arguments` declares `-h` itself
ALL = "all"
OUT = "runs/labs"
ENDINGS = (".png", ".svg")


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
    parser.add_argument("name", nargs="?", metavar="NAME", help="a lab, or `all`; without it, the list of labs")
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
    options.add_json(parser, "one object with the checks and tables on stdout")


def flags(arguments: Namespace) -> list[str]:
    """The flags that only the lab of this name has: `--gamma`."""
    from headway.labs.registry import LABS

    if arguments.name is None or arguments.name not in LABS:
        return []
    from headway.labs.frame import flag

    return [f"--{flag(each.path)}" for each in LABS[arguments.name].flags()]


def execute(arguments: Namespace) -> None:
    """Run a lab or all of them, or list them."""
    from headway.cli import lab_report
    from headway.labs.registry import lab

    if arguments.name is None:
        if arguments.overrides:
            raise ConfigError(f"{arguments.overrides[0]}: name a lab; `headway lab` lists them")
        lab_report.list_labs()
    elif arguments.help:  # that of the command is printed already
        if arguments.name != ALL:
            lab_report.list_flags(lab(arguments.name))
    elif arguments.name == ALL:
        _run_all(arguments)
    else:
        _run_one(lab(arguments.name), arguments)


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
