"""`headway deck`: what a slide of the lecture decks says, and the command that shows it."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headway.cli import options

if TYPE_CHECKING:
    from headway.labs.slide_index import SlideRow

HELP = "what a slide of the lecture decks says, and the lab or command that shows it"
EXAMPLES = (
    "headway deck    the decks",
    "headway deck 004 13    by page, slide or line of the text",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which deck and slide."""
    parser.add_argument("deck", nargs="?", metavar="DECK", help="000 to 004; without it, the list of decks")
    parser.add_argument("page", nargs="?", type=options.positive, metavar="PAGE", help="or a line of the deck's text")
    options.add_json(parser, "one list of rows on stdout")


def execute(arguments: Namespace) -> None:
    """Print the rows of a deck or of one of its slides."""
    from rich.text import Text

    from headway.cli import render as show
    from headway.cli.console import SafeConsole
    from headway.labs.slide_index import DECKS, find_slides, slide_rows

    rows = slide_rows() if arguments.deck is None else find_slides(arguments.deck, arguments.page)
    if arguments.json:
        print(json.dumps([_values(row) for row in rows], ensure_ascii=False))
        return
    console = SafeConsole()
    if arguments.deck is None:
        counts = [(deck, len(find_slides(deck))) for deck in DECKS]
        console.print(show.facts({deck: f"{DECKS[deck]}, {count} rows" for deck, count in counts}))
        console.print("\n`headway deck 004` lists the rows of a deck, `headway deck 004 13` those of a page or line.")
        return
    for row in rows:
        console.print(Text(_place(row, arguments.deck), style="bold"))
        for name, value in _facts(row):
            console.print(show.facts({f"  {name:<10}": value}))


def _values(row: SlideRow) -> dict[str, Any]:
    """A row as in `--json`."""
    keys = ("deck", "slide", "says", "labs", "commands", "file", "erratum", "reason")
    values: dict[str, Any] = {key: getattr(row, key) for key in keys}
    values["errors"] = [{"error": each.error, "says": each.says, "right": each.right} for each in row.errors()]
    values["questions"] = [
        {"question": each.question, "labs": each.labs, "look": each.look} for each in row.questions()
    ]
    return values


def _place(row: SlideRow, deck: str) -> str:
    return f"{row.deck} {row.slide}" + (f", {deck} line {row.begins(deck)}" if deck != row.deck else "")


def _facts(row: SlideRow) -> Iterator[tuple[str, str]]:
    """What is known of a row: one line each."""
    yield "says", row.says
    yield "shown by", ", ".join(row.commands) or f"nothing ({row.reason or 'not yet'})"
    if row.file:
        yield "source", f"src/headway/{row.file}"
    for error in row.errors():
        by = f" (headway lab {error.lab})" if error.lab else ""
        yield f"error {error.error}", f"“{error.says}”, right: {error.right}{by}"
    for asked in row.questions():
        yield "asks", asked.question
        yield "", f"see {', '.join(f'headway lab {name}' for name in asked.labs)}: {asked.look}"
