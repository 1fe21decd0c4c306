"""Writes docs/decks.md, the index of the decks' slides, from headway.labs.slide_index; `--check` only compares."""

from __future__ import annotations

import re
import sys

from headway.labs.registry import LABS
from headway.labs.slide_index import (
    DECKS,
    ClassQuestion,
    DeckError,
    SlideRow,
    class_questions,
    deck_errors,
    slide_rows,
)
from tools.generated import DOCS, write_or_check

PAGE = DOCS / "decks.md"
HEAD = """# The decks, slide by slide

<!-- written by `make deck-index` -->

Which command shows what a slide of the five lecture decks says. `headway deck 004 13` prints a row, by page or by line
of the deck's text, and `headway lab` lists the labs. Slides that unfold line by line are one row. Deck 001 begins with
the slides of 000; `headway deck 001 853` finds them by its own lines. `RUN` is a run of a task that the command takes,
such as `runs/demo`, which `headway demo` makes. Below are [the errors of the decks](#errors-of-the-decks) and [what
they ask their class](#questions-to-the-class).
"""
ERRORS_HEAD = """## Errors of the decks

What the decks get wrong, by the numbers of the column “error” above. `headway lab deck` computes a number as printed
and one as it is right for each of its rows.

| error | slide | says | right | lab |
| --- | --- | --- | --- | --- |"""
QUESTIONS_HEAD = """## Questions to the class

What the decks ask their class, in their order, without headings and questions that the same slide answers. The first
sixteen are those of decks 000 and 001; deck 001 asks most of 000's again, at lines of its own. The answer is a number
or a sentence that the lab prints: run it, look there, and say what it means. `headway lab all --out course` writes a
page of all labs.

| deck | question | lab | where to look |
| --- | --- | --- | --- |"""


def page() -> str:
    """The document."""
    rows = slide_rows()
    by_lab, shown = sum(bool(row.labs) for row in rows), sum(bool(row.commands) for row in rows)
    parts = [
        HEAD,
        f"Of {len(rows)} rows {by_lab} are shown by a lab, which checks what the slide says, {shown - by_lab} by\n"
        f"another command, and {len(rows) - shown} by none, with the reason.\n",
    ]
    for deck, name in DECKS.items():
        parts.append(f"## Deck {deck} ({name})\n")
        parts.append("| slide | says | shown by | source | error |\n| --- | --- | --- | --- | --- |")
        parts += [_row(row) for row in rows if row.deck == deck]
        parts.append("")
    parts.append(ERRORS_HEAD)
    parts += [_error(each) for each in deck_errors()]
    parts.append("")
    parts.append(QUESTIONS_HEAD)
    parts += [_question(each) for each in class_questions()]
    parts.append("")
    parts.append("## Labs\n\n| lab | claim |\n| --- | --- |")
    parts += [f"| `{name}` | {_cell(LABS[name].claim)} |" for name in LABS.homes]
    return "\n".join(parts) + "\n"


def _row(row: SlideRow) -> str:
    shown = ", ".join(f"`{command}`" for command in row.commands) or row.reason or "not yet"
    source = f"`{row.file}`" if row.file else ""
    return f"| {_cell(row.slide)} | {_cell(row.says)} | {shown} | {source} | {row.erratum} |"


def _error(found: DeckError) -> str:
    lab = f"`headway lab {found.lab}`" if found.lab else "a misprint"
    return f"| {found.error} | {found.slide} | {_cell(found.says)} | {_cell(found.right)} | {lab} |"


def _question(asked: ClassQuestion) -> str:
    labs = ", ".join(f"`headway lab {name}`" for name in asked.labs)
    return f"| {asked.deck} (line {asked.line}) | {_cell(asked.question)} | {labs} | {_cell(asked.look)} |"


def _cell(text: str) -> str:
    """A text of a table's cell in Markdown."""
    return re.sub(r"([|_*<])", r"\\\1", text)


def main() -> int:
    """Write the page, or check it."""
    return write_or_check({PAGE: page()}, "make deck-index")


if __name__ == "__main__":
    sys.exit(main())
