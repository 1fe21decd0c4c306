"""`headway score`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headway.cli import options
from headway.errors import DataError

if TYPE_CHECKING:
    from headway.runs import Run

HELP = "the log-probability of each text"
EXAMPLES = ("headway score runs/gpt-char 'to be or not to be'",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts."""
    options.add_run(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="translation models: SOURCE<tab>TARGET; default: stdin")
    parser.add_argument("--tokens", action="store_true", help="the log-probability of each token as well")


def execute(arguments: Namespace) -> None:
    """A line for each text: its log-probability in nats, how many tokens that is, and the text."""
    from headway.runs import load

    found = load(arguments.run, device=arguments.device)
    lines: Iterable[str] = arguments.text or (line.rstrip("\n") for line in sys.stdin)
    for line in lines:
        tokens = _scores(found, line)
        print(f"{sum(nats for _, nats in tokens):.4f}\t{len(tokens)}\t{line}")
        for token, nats in tokens if arguments.tokens else ():
            print(f"  {nats:.4f}\t{token}")


def _scores(found: Run, line: str) -> list[tuple[str, float]]:
    from headway.tasks.language_modelling.training import Language

    if isinstance(found.config.task, Language):
        return found.score(line)
    found.translator()  # raises where the run scores nothing
    source, tab, target = line.partition("\t")
    if not tab:
        raise DataError(f"a translation model scores SOURCE<tab>TARGET, got {line!r}")
    return found.score(target, source)
