"""`headway deck`: what a slide of the lecture decks says, and the command that shows it."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from headway.cli import options

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

    decks = [*DECKS] if arguments.deck is None else [arguments.deck]
    rows = [row for deck in decks for row in find_slides(deck, arguments.page)]
    if arguments.json:
        keys = ("deck", "slide", "says", "labs", "commands", "file", "erratum", "reason")
        print(json.dumps([{key: getattr(row, key) for key in keys} for row in rows], ensure_ascii=False))
        return
    console = SafeConsole()
    if arguments.deck is None:
        counts = [(deck, sum(row.deck == deck for row in slide_rows())) for deck in DECKS]
        console.print(show.facts({deck: f"{DECKS[deck]}, {count} rows" for deck, count in counts}))
        return
    for row in rows:
        facts = {"says": row.says, "shown by": ", ".join(row.commands) or f"nothing ({row.reason or 'not yet'})"}
        facts |= {"source": f"src/headway/{row.file}"} if row.file else {}
        facts |= {"erratum": f"{row.erratum} (headway lab deck)"} if row.erratum else {}
        console.print(Text(f"{row.deck} {row.slide}", style="bold"))
        console.print(show.facts({f"  {name}": value for name, value in facts.items()}))
