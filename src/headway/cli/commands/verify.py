"""`headway verify`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.terminal import is_terminal, tell
from headway.errors import ConfigError, DataError, VerificationError

if TYPE_CHECKING:
    from headway.runs import Run
    from headway.runs.verify import VerificationReport

HELP = "whether cache, batch, padding, kernels, precisions and export agree on this checkpoint; exit 0 or 3"
EXAMPLES = (
    "headway verify runs/en-de                              a verdict for each: rounding, or a bug",
    "headway verify runs/gpt-char 'to be or not to be'      on a line of your own",
    "headway verify runs/gpt-char --ranks 2                 do two processes train the same bytes as one?",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which inputs, and whether to compile."""
    options.add_run(parser)
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="inputs, or image files (default: synthetic, and some of val)"
    )
    parser.add_argument(
        "--input", metavar="FILE", help="inputs, one per line; a translation model's may be SOURCE<tab>TARGET"
    )
    parser.add_argument("--compiled", action="store_true", help="check the torch.compile path as well: a minute more")
    parser.add_argument(
        "--ranks", type=options.positive, metavar="N", help="instead: whether N processes train the same bytes as one"
    )
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """Print a verdict for each pair; raises VerificationError if one of them is a bug."""
    from headway.cli.console import SafeConsole
    from headway.cli.loading import load_run
    from headway.cli.verify_report import verify_parts

    if arguments.ranks is not None:
        _check_ranks(arguments)
        return
    run = load_run(arguments)
    report = _report(run, _given(arguments), compiled=arguments.compiled)
    for note in report.subject.inputs.notes:
        tell(f"note: {note}")
    if arguments.json:
        print(json.dumps(report.to_json(), allow_nan=False))
    else:
        SafeConsole().print(*verify_parts(run.folder, report), sep="\n")
    if report.bugs:
        named, checks = ", ".join(report.bugs), report.checked
        raise VerificationError(f"{arguments.run}: {len(report.bugs)} of {checks} checks found a bug: {named}")


def _check_ranks(arguments: Namespace) -> None:
    """Print the checksums of what one process and several have trained; raises VerificationError if they differ."""
    import torch

    from headway.cli.rank_check import check_ranks, expect_equal
    from headway.runs.folder import read_config

    if arguments.text or arguments.input or arguments.compiled:
        raise ConfigError("--ranks trains on the run's own data; leave TEXT, --input and --compiled out")
    folder = Path(arguments.run)
    read_config(folder)  # checks that it is one
    gpus = torch.cuda.device_count() >= arguments.ranks and arguments.device != "cpu"
    tell(f"training 4 steps by 1 and by {arguments.ranks} processes, in a temporary folder")
    found = check_ranks(folder, arguments.ranks, "cuda" if gpus else "cpu")
    if arguments.json:
        figures = {"ranks": found.ranks, "equal": found.equal, "alone": found.alone, "together": found.together}
        print(json.dumps(figures))
    else:
        print("\n".join(found.lines()))
    expect_equal(found, arguments.run)


def _given(arguments: Namespace) -> list[str]:
    texts = list(arguments.text)
    if arguments.input is not None:
        from headway.documents import open_regular

        try:
            with open_regular(Path(arguments.input)) as file:
                texts += file.read().decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"--input {arguments.input}: cannot be read ({type(error).__name__})") from error
        if not any(texts):
            raise DataError(f"--input {arguments.input}: no line with text in it")
    return texts


def _report(run: Run, given: list[str], *, compiled: bool) -> VerificationReport:
    """Every finding, while stderr says which check runs."""
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from headway.cli.console import SafeConsole
    from headway.runs.verify import verify_run

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    watched = is_terminal(sys.stderr)
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True, disable=not watched) as bar:
        task = bar.add_task("float64")
        return verify_run(run, given, compiled=compiled, on_check=lambda name: bar.update(task, description=name))
