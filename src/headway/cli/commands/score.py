"""`headway score`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from headway.cli.lines import stdin_lines
from headway.runs import load
from headway.tasks.capabilities import Scores


def run(arguments: Namespace) -> None:
    """A line for each text: its log-probability in nats, its number of tokens, and the text."""
    pipeline = load(arguments.run, device=arguments.device).require(Scores)
    lines: Iterable[str] = arguments.text or stdin_lines()
    for line in lines:
        tokens = pipeline.score_line(line)
        print(f"{sum(nats for _, nats in tokens):.4f}\t{len(tokens)}\t{line}")
        for token, nats in tokens if arguments.tokens else ():
            print(f"  {nats:.4f}\t{token}")
