"""`headway score`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable

from headway.errors import DataError
from headway.runs import Run, load
from headway.tasks.language_modelling.training import Language


def run(arguments: Namespace) -> None:
    """A line for each text: its log-probability in nats, how many tokens that is, and the text."""
    found = load(arguments.run, device=arguments.device)
    lines: Iterable[str] = arguments.text or (line.rstrip("\n") for line in sys.stdin)
    for line in lines:
        tokens = _scores(found, line)
        print(f"{sum(nats for _, nats in tokens):.4f}\t{len(tokens)}\t{line}")
        for token, nats in tokens if arguments.tokens else ():
            print(f"  {nats:.4f}\t{token}")


def _scores(found: Run, line: str) -> list[tuple[str, float]]:
    if isinstance(found.config.task, Language):
        return found.score(line)
    found.translator()  # raises where the run scores nothing
    source, tab, target = line.partition("\t")
    if not tab:
        raise DataError(f"a translation model scores SOURCE<tab>TARGET, got {line!r}")
    return found.score(target, source)
