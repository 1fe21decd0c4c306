"""`headway score`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import stdin_lines, write_lines

if TYPE_CHECKING:
    from headway.cli.jobs import JobWork
    from headway.tasks.capabilities import Scores

LINES_AT_ONCE = 64  # of a job

HELP = "the log-probability of each text"
EXAMPLES = ("headway score runs/gpt-char 'to be or not to be'",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="translation models: SOURCE<tab>TARGET; default: stdin")
    parser.add_argument("--tokens", action="store_true", help="the log-probability of each token as well")
    options.add_job(parser)
    options.add_json(parser, "with --input: one object about the job")


def execute(arguments: Namespace) -> None:
    """A line for each text: its log-probability in nats, its number of tokens, and the text."""
    from headway.cli.loading import load_run
    from headway.tasks.capabilities import Scores

    if options.is_job(arguments, never=("text",)):
        from headway.cli.jobs import run_job
        from headway.runs.jobs import TextOutput

        run_job(arguments, TextOutput(), lambda: _job(arguments))
        return
    pipeline = load_run(arguments).require(Scores)
    lines: Iterable[str] = arguments.text or stdin_lines()
    for number, line in enumerate(lines):
        write_lines([_scored(pipeline, line, number, tokens=arguments.tokens)])


def _job(arguments: Namespace) -> JobWork:
    from headway.cli.jobs import JobWork
    from headway.cli.loading import load_run
    from headway.tasks.capabilities import Scores

    run = load_run(arguments)
    pipeline = run.require(Scores)

    def answer(block: Sequence[str], before: int) -> list[str]:
        return [_scored(pipeline, line, number, tokens=arguments.tokens) for number, line in enumerate(block, before)]

    return JobWork(runs=[run], answer=answer, lines_at_once=LINES_AT_ONCE)


def _scored(pipeline: Scores, line: str, number: int, *, tokens: bool) -> str:
    """The line for a text, and with `tokens` one for each token; `number` is its place in the input, from 0."""
    from headway.decoding.non_finite import numbered

    with numbered([number], "line"):
        scored = pipeline.score_line(line)
    shown = [f"  {nats:.4f}\t{token}" for token, nats in scored] if tokens else []
    return "\n".join([f"{sum(nats for _, nats in scored):.4f}\t{len(scored)}\t{line}", *shown])
