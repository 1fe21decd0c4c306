"""`headway verify`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import is_terminal
from headway.errors import DataError, VerificationError

if TYPE_CHECKING:
    from headway.verification.checks import VerificationSubject
    from headway.verification.verify import Baseline, Finding

HELP = "whether cache, batch, padding, kernels, precisions and export agree on this checkpoint; exit 0 or 3"
EXAMPLES = (
    "headway verify runs/en-de                              a verdict for each: rounding, or a bug",
    "headway verify runs/gpt-char 'to be or not to be'      on a line of your own",
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
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """Print a verdict for each pair; raises VerificationError if one of them is a bug."""
    from rich.console import Console

    from headway.cli.verify_report import checked, verify_parts, verify_values
    from headway.cli.verify_subject import subject_of
    from headway.runs import load

    found = load(arguments.run, device=arguments.device)
    subject = subject_of(found, _given(arguments), compiled=arguments.compiled)
    findings, level = _findings(subject)
    bugs = [finding for finding in findings if finding.verdict == "bug"]
    if arguments.json:
        print(json.dumps(verify_values(found, findings, level, subject), allow_nan=False))
    else:
        console = Console(highlight=False)
        console.print(*verify_parts(found, findings, level, subject), sep="\n")
    if bugs:
        named = ", ".join(finding.check.name for finding in bugs)
        raise VerificationError(f"{arguments.run}: {len(bugs)} of {checked(findings)} checks found a bug: {named}")


def _given(arguments: Namespace) -> list[str]:
    texts = list(arguments.text)
    if arguments.input is not None:
        try:
            texts += Path(arguments.input).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"--input {arguments.input}: cannot be read ({type(error).__name__})") from error
        if not any(texts):
            raise DataError(f"--input {arguments.input}: no line with text in it")
    return texts


def _findings(subject: VerificationSubject) -> tuple[list[Finding], Baseline]:
    """Every finding, while stderr says which check runs."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from headway.verification.verify import measure_baseline, verify

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    watched = is_terminal(sys.stderr)
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not watched) as bar:
        task = bar.add_task("float64")
        level = measure_baseline(subject)
        return list(verify(subject, level, lambda check: bar.update(task, description=check.name))), level
