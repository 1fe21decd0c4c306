"""`headway answer`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import LineCounter, stdin_lines, write_lines
from headway.errors import ConfigError, DataError, shown

if TYPE_CHECKING:
    from headway.tasks.question_answering.pipeline import AnswerPrediction

HELP = "the answer to a question, read out of a context"
EXAMPLES = (
    "headway answer runs/bert-reader 'John , the artist , is visiting New York .' 'where is John visiting ?'",
    "headway answer runs/bert-reader @book.txt 'who is late ?' --top 3 --json",
)
LINES_AT_ONCE = 64  # a stdin of any size streams through
STDIN = "-"


def add_arguments(parser: ArgumentParser) -> None:
    """The context, the question, and how many answers."""
    options.add_run(parser)
    parser.add_argument(
        "context",
        nargs="?",
        metavar="CONTEXT",
        help="a text, @FILE, or - for stdin; without it, stdin has a JSON object with context and question a line",
    )
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="what is asked about the context")
    parser.add_argument(
        "--top", type=options.positive, default=1, metavar="K", help="answers to a question (default: %(default)s)"
    )
    parser.add_argument(
        "--threshold",
        type=options.finite,
        metavar="X",
        help="no answer if its score is above the best span's by more (default: tuned in training on such questions)",
    )
    options.add_adapter(parser)
    options.add_precision(parser)
    options.add_json(parser, "one object a question, with answers, their places and scores")


def execute(arguments: Namespace) -> None:
    """For each question a line: the answer, its probability, and its characters in the context, tabs between."""
    from headway.decoding.non_finite import numbered
    from headway.runs import load
    from headway.tasks.capabilities import Answers

    pairs = _pairs(arguments.context, arguments.question)
    pipeline = load(
        arguments.run, adapter=arguments.adapter, device=arguments.device, precision=arguments.precision
    ).require(Answers)
    done, ended = 0, False
    with LineCounter() as counter:
        while not ended:
            block: list[tuple[str, str]] = []
            while len(block) < LINES_AT_ONCE and not ended:
                pair = next(pairs, None)
                ended = pair is None
                block += [] if pair is None else [pair]
            with numbered(range(done, done + len(block)), "question"):
                found = pipeline.answer(block, top=arguments.top, threshold=arguments.threshold)
            done += len(block)
            for each in found:
                write_lines(_lines(each, as_json=arguments.json))
            counter.advance(len(block))


def _lines(found: AnswerPrediction, *, as_json: bool) -> list[str]:
    if as_json:
        return [json.dumps(found.to_json(), ensure_ascii=False)]
    if not found.answers:
        return [f"(no answer)\t{found.gap:.4f}"]
    return [
        f"{' '.join(each.text.split())}\t{each.probability:.1%}\t{each.start}-{each.stop}" for each in found.answers
    ]


def _pairs(context: str | None, question: str | None) -> Iterator[tuple[str, str]]:
    """Contexts with questions, from the arguments or from stdin. Raises ConfigError, DataError."""
    if context is None:
        return _objects()
    if question is None:
        if context.startswith("@") or context == STDIN or "\t" not in context:
            raise ConfigError("a context without a question: name both, CONTEXT QUESTION, or neither and use stdin")
        context, _, question = context.rpartition("\t")
    elif context == STDIN:
        context = "\n".join(stdin_lines())
    elif context.startswith("@"):
        context = _file(context[1:])
    return iter([(context, question)])


def _file(name: str) -> str:
    from headway.data.files import read_lines

    return "\n".join(read_lines(Path(name).expanduser()))


def _objects() -> Iterator[tuple[str, str]]:
    """The questions on stdin: a JSON object a line, or a context, a tab and a question."""
    from headway.documents import parse_json

    for number, line in enumerate(stdin_lines(), start=1):
        if not line.strip():
            continue
        where = f"stdin: line {number}"
        if not line.lstrip().startswith("{"):
            context, tab, question = line.rpartition("\t")
            if not tab:
                raise DataError(f"{where}: expected a JSON object, or a context, a tab and a question")
            yield context, question
            continue
        row = parse_json(line, where)
        for key in ("context", "question"):
            if not isinstance(row.get(key), str):
                raise DataError(f"{where}: {shown(row.get(key))} as {key}, expected a string")
        yield row["context"], row["question"]
