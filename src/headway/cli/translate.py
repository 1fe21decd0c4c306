"""`headway translate`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from itertools import islice

from headway.runs import load

LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def run(arguments: Namespace) -> None:
    """One output line for each input line, in their order."""
    found = load(arguments.run, device=arguments.device)
    task = found.translator()
    lines: Iterable[str] = arguments.text or (line.rstrip("\n") for line in sys.stdin)
    settings = {"beam": arguments.beam, "length_penalty": arguments.length_penalty, "n_best": arguments.n_best}
    for block in _blocks(lines):
        for hypotheses in task.hypotheses(found.model, found.device, block, **settings):
            if arguments.n_best == 1:
                print(task.target_tokenizer.decode(hypotheses[0].tokens) if hypotheses else "")
            for rank, line in enumerate(hypotheses, 1) if arguments.n_best > 1 else ():
                print(f"{rank}\t{line.score:.4f}\t{task.target_tokenizer.decode(line.tokens)}")
        sys.stdout.flush()


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(lines)
    while block := list(islice(rest, LINES_AT_ONCE)):
        yield block
