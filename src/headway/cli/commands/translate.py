"""`headway translate`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import LineCounter, blocks, note_files, stdin_lines, write_lines
from headway.cli.terminal import is_terminal

if TYPE_CHECKING:
    from headway.cli.jobs import JobWork
    from headway.decoding.trace import Trace
    from headway.runs import Run
    from headway.tasks.capabilities import Translates
    from headway.tasks.translation.config import Decoding
    from headway.tasks.translation.translator import ScoredText, Translator

HELP = "one output line for each input line"
EXAMPLES = (
    "headway translate runs/demo 'a cute puppy'",
    "headway translate runs/en-de --input corpus.en --out job    one of any number of workers of a job",
    "headway translate runs/en-de --input corpus.en --out job --join corpus.de",
)
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
    options.add_job(parser)
    options.add_json(parser, "with --input: one object about the job")


def execute(arguments: Namespace) -> None:
    """One output line for each input line, in their order."""
    from headway.cli.outputs import TEXT, expect_outputs

    if options.is_job(arguments, never=("text", "trace")):
        from headway.cli.jobs import run_job
        from headway.runs.jobs import TextOutput

        run_job(arguments, TextOutput(), lambda: _job(arguments))
        return
    expect_outputs(arguments, trace=TEXT, stdout_has="the translations")
    _, translator_with = _loaded(arguments)
    note_files(arguments.text, "translate")
    typed = not arguments.text and is_terminal(sys.stdin)
    lines: Iterable[str] = arguments.text or stdin_lines()
    with LineCounter() as counter, _trace(arguments) as on_trace:
        translator = translator_with(note=counter.note, on_trace=on_trace)
        for block in blocks(lines, 1 if typed else LINES_AT_ONCE):
            write_lines([_shown(best, arguments.n_best) for best in translator.translate(block)])
            counter.advance(len(block))
        translator.report()


def _loaded(arguments: Namespace) -> tuple[list[Run], Callable[..., Translator]]:
    """The run and those of `--ensemble`, and what makes a translator of them."""
    from headway.cli.loading import load_run
    from headway.runs import load
    from headway.tasks.capabilities import Translates

    found = load_run(arguments)
    pipeline = found.require(Translates)
    others = [
        load(name, device=arguments.device, precision=arguments.precision)
        for name in (arguments.ensemble or "").split(",")
        if name
    ]
    ensemble = [other.require(Translates) for other in others]
    return [found, *others], partial(pipeline.translator, _decoding(pipeline, arguments), ensemble=ensemble)


def _job(arguments: Namespace) -> JobWork:
    from headway.cli.jobs import JobWork, note

    runs, translator_with = _loaded(arguments)
    translator = translator_with(note=note)

    def answer(block: Sequence[str], before: int) -> list[str]:
        translator.lines = before
        return [_shown(best, arguments.n_best) for best in translator.translate(block)]

    return JobWork(runs=runs, answer=answer, lines_at_once=LINES_AT_ONCE, ended=translator.report)


def _trace(arguments: Namespace) -> AbstractContextManager[Callable[[Trace], None] | None]:
    """Where traces go, if they were asked for."""
    if arguments.trace is None:
        return nullcontext()
    from headway.decoding.trace.format import trace_writer

    return trace_writer(Path(arguments.trace))


def _shown(best: list[ScoredText], n_best: int) -> str:
    """The lines for one input line: the translation, or each with rank and score; an empty one for an empty one."""
    if not best or n_best == 1:
        return best[0].text if best else ""
    return "\n".join(f"{rank}\t{each.score:.4f}\t{each.text}" for rank, each in enumerate(best, 1))


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
