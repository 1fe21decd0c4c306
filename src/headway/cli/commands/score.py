"""`headway score`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from headway.cli import options
from headway.cli.lines import stdin_lines, write_lines

HELP = "the log-probability of each text"
EXAMPLES = ("headway score runs/gpt-char 'to be or not to be'",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="translation models: SOURCE<tab>TARGET; default: stdin")
    parser.add_argument("--tokens", action="store_true", help="the log-probability of each token as well")


def execute(arguments: Namespace) -> None:
    """A line for each text: its log-probability in nats, its number of tokens, and the text."""
    from headway.cli.loading import load_run
    from headway.decoding.non_finite import numbered
    from headway.tasks.capabilities import Scores

    pipeline = load_run(arguments).require(Scores)
    lines: Iterable[str] = arguments.text or stdin_lines()
    for number, line in enumerate(lines):
        with numbered([number], "line"):
            tokens = pipeline.score_line(line)
        shown = [f"  {nats:.4f}\t{token}" for token, nats in tokens] if arguments.tokens else []
        write_lines([f"{sum(nats for _, nats in tokens):.4f}\t{len(tokens)}\t{line}", *shown])
