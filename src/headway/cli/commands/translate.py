"""`headway translate`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import LineCounter, blocks, note_files, stdin_lines, write_lines
from headway.cli.terminal import is_terminal

if TYPE_CHECKING:
    from headway.decoding.trace import Trace
    from headway.tasks.capabilities import Translates
    from headway.tasks.translation.config import Decoding
    from headway.tasks.translation.translator import ScoredText

HELP = "one output line for each input line"
EXAMPLES = ("headway translate runs/demo 'a cute puppy'",)
LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts, how to search, and what the translations must and must not contain."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="without it, lines are read from stdin")
    parser.add_argument("--beam", type=options.positive, help="beam size (default: the recipe's)")
    parser.add_argument("--length-penalty", type=options.finite, metavar="A", help="default: the recipe's")
    parser.add_argument("--n-best", type=options.positive, default=1, metavar="N", help="the best N with their scores")
    parser.add_argument(
        "--stop-rule",
        choices=("first", "best"),
        default="first",
        help="end a search when a beam of hypotheses has finished, or when no open one can win (default: %(default)s)",
    )
    parser.add_argument(
        "--groups", type=options.positive, default=1, metavar="N", help="diverse beam search in N groups"
    )
    parser.add_argument(
        "--diversity",
        type=options.finite,
        default=0.5,
        metavar="D",
        help="penalty between groups (default: %(default)s)",
    )
    parser.add_argument("--prefix", default="", metavar="TEXT", help="translations begin with this")
    parser.add_argument("--must", action="append", default=[], metavar="TEXT", help="and contain this (repeatable)")
    parser.add_argument("--ban", action="append", default=[], metavar="TEXT", help="and not this (repeatable)")
    parser.add_argument("--no-repeat", type=options.count, default=0, metavar="N", help="no sequence of N tokens twice")
    parser.add_argument("--ensemble", metavar="RUN2,RUN3", help="the mean of this run and others")
    parser.add_argument(
        "--max-extra",
        type=options.integer,
        metavar="N",
        help="tokens beyond the source's length (default: the recipe's)",
    )
    options.add_precision(parser)
    parser.add_argument("--trace", metavar="FILE", help="keep each step of the search for `headway trace`")


def execute(arguments: Namespace) -> None:
    """One output line for each input line, in their order."""
    from headway.cli.loading import load_run
    from headway.cli.outputs import TEXT, expect_outputs
    from headway.runs import load
    from headway.tasks.capabilities import Translates

    expect_outputs(arguments, trace=TEXT, stdout_has="the translations")
    found = load_run(arguments)
    pipeline = found.require(Translates)
    others = [
        load(name, device=arguments.device, precision=arguments.precision).require(Translates)
        for name in (arguments.ensemble or "").split(",")
        if name
    ]
    note_files(arguments.text, "translate")
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


def _trace(arguments: Namespace) -> AbstractContextManager[Callable[[Trace], None] | None]:
    """Where traces go, if they were asked for."""
    if arguments.trace is None:
        return nullcontext()
    from headway.decoding.trace.format import trace_writer

    return trace_writer(Path(arguments.trace))


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
