"""`headway translate`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.lines import LineCounter, blocks, is_terminal, stdin_lines, write_lines
from headway.runs import load
from headway.storage.commit import commit_stream
from headway.tasks.capabilities import Translates

if TYPE_CHECKING:
    from headway.decoding.trace import Trace
    from headway.tasks.translation.config import Decoding
    from headway.tasks.translation.translator import ScoredText

LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def run(arguments: Namespace) -> None:
    """One output line for each input line, in their order."""
    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    pipeline = found.require(Translates)
    others = [
        load(name, device=arguments.device, precision=arguments.precision).require(Translates)
        for name in (arguments.ensemble or "").split(",")
        if name
    ]
    typed = not arguments.text and is_terminal(sys.stdin)
    lines: Iterable[str] = arguments.text or stdin_lines()
    with LineCounter() as counter, _trace(arguments) as on_trace:
        decoding = _decoding(pipeline, arguments)
        translator = pipeline.translator(decoding, ensemble=others, note=counter.note, on_trace=on_trace)
        for block in blocks(lines, 1 if typed else LINES_AT_ONCE):
            translated = translator.translate(block)
            write_lines([line for best in translated for line in _shown(best, arguments.n_best)])
            counter.advance(len(block))
        translator.report()


@contextmanager
def _trace(arguments: Namespace) -> Iterator[Callable[[Trace], None] | None]:
    """Where traces go, if they were asked for."""
    if arguments.trace is None:
        yield None
        return
    from headway.decoding.trace.format import to_json

    with commit_stream(Path(arguments.trace)) as file:
        yield lambda trace: file.line(to_json(trace))


def _shown(best: list[ScoredText], n_best: int) -> list[str]:
    """The lines for one input line: the translation, or each with rank and score; an empty one for an empty one."""
    if not best or n_best == 1:
        return [best[0].text if best else ""]
    return [f"{rank}\t{each.score:.4f}\t{each.text}" for rank, each in enumerate(best, 1)]


def _decoding(pipeline: Translates, arguments: Namespace) -> Decoding:
    from headway.tasks.translation.config import Decoding

    return Decoding(
        beam=arguments.beam,
        length_penalty=arguments.length_penalty,
        n_best=arguments.n_best,
        stop_rule=arguments.stop_rule,
        groups=arguments.groups,
        diversity=arguments.diversity,
        max_extra=arguments.max_extra,
        constraints=pipeline.constraints(
            prefix=arguments.prefix, must=arguments.must, ban=arguments.ban, no_repeat=arguments.no_repeat
        ),
    )
