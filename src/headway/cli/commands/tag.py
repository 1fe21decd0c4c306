"""`headway tag`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import LineCounter, blocks, note_files, stdin_lines, write_lines
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.tasks.tagging.pipeline import TagPrediction

HELP = "the tag of each word of a text: names, parts of speech"
EXAMPLES = (
    "headway tag runs/bert-tagger 'the animal did not cross the street because it was too tired'",
    "headway tag runs/bert-tagger --columns < new.en   words and tags in columns, as training reads them",
)
LINES_AT_ONCE = 512  # a stdin of any size streams through


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts, and how tags are printed."""
    options.add_run(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="without it, lines are read from stdin")
    parser.add_argument(
        "--columns",
        action="store_true",
        help="a word a line with its tag, tabs between, and an empty line after a text",
    )
    options.add_adapter(parser)
    options.add_precision(parser)
    options.add_json(parser, "one object a text, with words, tags, probabilities and entities")


def execute(arguments: Namespace) -> None:
    """A line a text, entities in brackets after their type, or each word with its tag; or columns, or JSON."""
    from headway.cli.loading import load_run
    from headway.decoding.non_finite import numbered
    from headway.tasks.capabilities import Tags

    if arguments.columns and arguments.json:
        raise ConfigError("--columns and --json are two forms of output, choose one")
    pipeline = load_run(arguments).require(Tags)
    note_files(arguments.text, "tag")
    done = 0
    with LineCounter() as counter:
        for block in blocks(arguments.text or stdin_lines(), LINES_AT_ONCE):
            filled = [line for line in block if line.strip()] if not arguments.text else block
            with numbered(range(done, done + len(filled)), "text"):
                found = iter(pipeline.tag(filled))
            done += len(filled)
            for line in block:  # an empty line of stdin stays one
                prediction = next(found) if arguments.text or line.strip() else None
                write_lines(_lines(prediction, columns=arguments.columns, as_json=arguments.json))
            counter.advance(len(block))


def _lines(found: TagPrediction | None, *, columns: bool, as_json: bool) -> list[str]:
    if found is None:
        return ["{}"] if as_json else [""]
    if as_json:
        return [json.dumps(found.to_json(), ensure_ascii=False)]
    if columns:
        return [*(f"{word}\t{tag}" for word, tag in zip(found.words, found.tags, strict=True)), ""]
    return [str(found)]
