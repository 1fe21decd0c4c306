"""`headway answer`."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import LineCounter, stdin_lines, write_lines
from headway.cli.terminal import tell
from headway.errors import ConfigError, DataError, shown

if TYPE_CHECKING:
    from headway.tasks.answers import AnswerPrediction, AskedQuestion
    from headway.tasks.capabilities import Answers

HELP = "the answer to a question: a part of a context, or one of several choices"
EXAMPLES = (
    "headway answer runs/bert-reader 'John , the artist , is visiting New York .' 'where is John visiting ?'",
    "headway answer runs/bert-reader @book.txt 'who is late ?' --top 3 --json",
    "headway answer runs/bert-choice 'the dog left the apple because it was too sour' 'what is it ?' "
    "--choice 'the dog' --choice 'the apple'",
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
        "--choice",
        action="append",
        default=[],
        metavar="TEXT",
        help="one of the texts that a multiple-choice answerer chooses from; give it for each of them",
    )
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
    """For each question a line: the answer, its probability, and its place, tabs between.

    The place is the characters of the context, or the number among the choices. A multiple-choice answerer has this
    command, too: choices belong to a question, as a context does, and not to the run, as the classes of `classify` do.
    """
    from headway.cli.loading import load_run
    from headway.decoding.non_finite import numbered
    from headway.tasks.capabilities import Answers

    given = _given(arguments.context, arguments.question, arguments.choice)
    pipeline = load_run(arguments).require(Answers)
    if (arguments.question is not None or arguments.choice) and os.path.isfile(arguments.context):
        name = arguments.context
        tell(f"note: {name} is a file, and its name is taken for the context; pass @{name} to read it")
    questions = given(pipeline)
    done, ended = 0, False
    with LineCounter() as counter:
        while not ended:
            block: list[AskedQuestion] = []
            while len(block) < LINES_AT_ONCE and not ended:
                asked = next(questions, None)
                ended = asked is None
                block += [] if asked is None else [asked]
            with numbered(range(done, done + len(block)), "question"):
                found = pipeline.answer(block, top=arguments.top, threshold=arguments.threshold)
            done += len(block)
            for each in found:
                write_lines(_lines(each, as_json=arguments.json))
            counter.advance(len(block))


def _lines(found: AnswerPrediction, *, as_json: bool) -> list[str]:
    return [json.dumps(found.to_json(), ensure_ascii=False)] if as_json else found.lines


def _given(
    context: str | None, question: str | None, choices: Sequence[str]
) -> Callable[[Answers], Iterator[AskedQuestion]]:
    """What reads the questions, from the arguments or from stdin, for a run. Raises ConfigError, DataError."""
    from headway.tasks.answers import AskedQuestion

    if context is None:
        if choices:
            raise ConfigError("--choice without a context: name it, or use stdin with choices in each JSON object")
        return _objects
    if question is None and not choices:
        line = context
        if line.startswith("@") or line == STDIN or "\t" not in line:
            raise ConfigError("a context without a question: name both, CONTEXT QUESTION, or neither and use stdin")
        return lambda run: iter([run.asked(line)])
    if context == STDIN:
        context = "\n".join(stdin_lines())
    elif context.startswith("@"):
        context = _file(context[1:])
    asked = AskedQuestion(context, question or "", tuple(choices))
    return lambda run: iter([asked])


def _file(name: str) -> str:
    from headway.data.files import read_lines

    return "\n".join(read_lines(Path(name).expanduser()))


def _objects(run: Answers) -> Iterator[AskedQuestion]:
    """The questions on stdin: a JSON object a line, or a line with tabs as the run reads it."""
    from headway.documents import parse_json
    from headway.tasks.answers import AskedQuestion

    for number, line in enumerate(stdin_lines(), start=1):
        if not line.strip():
            continue
        where = f"stdin: line {number}"
        if not line.lstrip().startswith("{"):
            try:
                yield run.asked(line)
            except DataError as error:
                raise DataError(f"{where}: {str(error).replace('expected', 'expected a JSON object, or', 1)}") from None
            continue
        row = parse_json(line, where)
        choices = row.get("choices", [])
        if not isinstance(choices, list) or not all(isinstance(each, str) for each in choices):
            raise DataError(f"{where}: {shown(choices)} as choices, expected a list of strings")
        for key in ("context", "question"):
            if not isinstance(row.get(key, "" if choices else None), str):
                raise DataError(f"{where}: {shown(row.get(key))} as {key}, expected a string")
        yield AskedQuestion(row.get("context", ""), row.get("question", ""), tuple(choices))
