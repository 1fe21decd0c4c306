"""`headway translate`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from headway.decoding.beam import Hypothesis
from headway.decoding.trace import replay
from headway.decoding.trace_format import to_json
from headway.runs import Run, load
from headway.storage import Appending, growing
from headway.tasks.translation import TranslationTask

LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def run(arguments: Namespace) -> None:
    """One output line for each input line, in their order."""
    found = load(arguments.run, device=arguments.device)
    task = found.translator()
    lines: Iterable[str] = arguments.text or (line.rstrip("\n") for line in sys.stdin)
    settings = {"beam": arguments.beam, "length_penalty": arguments.length_penalty, "n_best": arguments.n_best}
    with nullcontext() if arguments.trace is None else growing(Path(arguments.trace)) as file:
        for block in _blocks(lines):
            for hypotheses in _search(found, task, block, file, settings):
                if arguments.n_best == 1:
                    print(task.target_tokenizer.decode(hypotheses[0].tokens) if hypotheses else "")
                for rank, line in enumerate(hypotheses, 1) if arguments.n_best > 1 else ():
                    print(f"{rank}\t{line.score:.4f}\t{task.target_tokenizer.decode(line.tokens)}")
            sys.stdout.flush()


def _search(
    found: Run, task: TranslationTask, block: list[str], file: Appending | None, settings: dict[str, Any]
) -> list[list[Hypothesis]]:
    """The best lines for each of a block's; where a trace is asked for, what is said is read from it."""
    if file is None:
        return task.hypotheses(found.model, found.device, block, **settings)
    traces = task.traces(found.model, found.device, block, steps=found.steps, **settings)
    for trace in traces:
        file.line(to_json(trace))
    return [replay(trace) for trace in traces]


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(lines)
    while block := list(islice(rest, LINES_AT_ONCE)):
        yield block
