"""Every slide of the decks: what it says, which lab and command show it, where it is in the source, and its errors.

The table is `slides.tsv`, a row for each statement; slides that only unfold line by line are one row. Decks have
numbers: 000 and 001 (Macau; 001 is the longer draft), 002 (IIT Kharagpur), 003 (Philippines), 004 (NLP course). The
questions that the decks ask the class are in `questions.tsv`, each with the labs whose numbers answer it; what the
decks get wrong is in `errata.tsv`, each with the lab that shows what is right, `deck` for most.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headway.errors import ConfigError, shown
from headway.labs.registry import LABS

DECKS = {
    "000": "Macau",
    "001": "Macau, the longer draft",
    "002": "IIT Kharagpur",
    "003": "Philippines",
    "004": "NLP course",
}
DRAFT = "001"  # begins with the slides of 000, on other lines
LINES = {"000": 1558, "001": 1931, "002": 1874, "003": 354, "004": 775}  # of the decks' texts
TABLE = Path(__file__).parent / "slides.tsv"
QUESTIONS = Path(__file__).parent / "questions.tsv"
ERRATA = Path(__file__).parent / "errata.tsv"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideRow:
    """One statement of a deck."""

    deck: str
    slide: str  # as the deck counts, with lines of its text: "Review 5 (line 49, 61)", "p. 13 (line 135)"
    says: str
    planned: tuple[str, ...]  # labs that are for it, registered or not
    command: str  # that shows it, beside labs; "" for none
    source: str  # a file of the package; "" for that of its lab
    erratum: str  # the numbers of its errors, as in `deck_errors`: "16b, 16e"
    reason: str  # why nothing shows it, where nothing does
    draft_line: int | None = None  # where it begins in the text of 001, for a row of 000

    @property
    def labs(self) -> tuple[str, ...]:
        """The labs that show it."""
        return tuple(name for name in self.planned if name in LABS.homes)

    @property
    def commands(self) -> tuple[str, ...]:
        """Every command that shows it, labs first."""
        return (*(f"headway lab {name}" for name in self.labs), *filter(None, (self.command,)))

    @property
    def file(self) -> str:
        """The source file, below src/headway; "" for none."""
        if self.source or not self.labs:
            return self.source
        return LABS.homes[self.labs[0]].partition(":")[0].replace("headway.", "", 1).replace(".", "/") + ".py"

    def has(self, number: int) -> bool:
        """Whether a page, a slide of a section or a line of the text with this number is in this row."""
        ranges = re.findall(r"(\d+)(?:–(\d+))?", self.slide)
        return any(int(first) <= number <= int(last or first) for first, last in ranges)

    def begins(self, deck: str) -> int | None:
        """The line of this deck's text at which the row begins."""
        if deck != self.deck:
            return self.draft_line
        line = re.search(r"line (\d+)", self.slide)
        return None if line is None else int(line[1])

    def questions(self) -> tuple[ClassQuestion, ...]:
        """What the deck asks its class here."""
        return tuple(each for each in class_questions() if each.deck == self.deck and self in each.rows())

    def errors(self) -> tuple[DeckError, ...]:
        """What is wrong here, with what is right."""
        numbers = self.erratum.replace(",", " ").split()
        return tuple(each for each in deck_errors() if each.error in numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassQuestion:
    """A question that a deck asks its class, and where the labs answer it."""

    deck: str
    line: int  # of the deck's text
    question: str
    labs: tuple[str, ...]
    look: str  # where in the labs the numbers are that answer it

    def rows(self) -> Sequence[SlideRow]:
        """The rows of the slide that asks it."""
        page = re.search(r"p\. (\d+)\)", self.question)
        return find_slides(self.deck, self.line if page is None else int(page[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeckError:
    """An error of the decks."""

    error: str  # its number; "16b" is the second one of error 16
    slide: str
    says: str
    right: str
    lab: str  # that shows it with a number; "" for a misprint


def _rows(path: Path) -> list[list[str]]:
    """The cells of a table below its header."""
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]


@cache
def class_questions() -> tuple[ClassQuestion, ...]:
    """All questions, in the order of the decks."""
    return tuple(
        ClassQuestion(deck=deck, line=int(line), question=question, labs=tuple(labs.split(",")), look=look)
        for deck, line, question, labs, look in _rows(QUESTIONS)
    )


@cache
def deck_errors() -> tuple[DeckError, ...]:
    """All errors, by number."""
    return tuple(
        DeckError(error=error, slide=slide, says=says, right=right, lab=lab)
        for error, slide, says, right, lab in _rows(ERRATA)
    )


@cache
def slide_rows() -> tuple[SlideRow, ...]:
    """All rows, in the order of the decks."""
    return tuple(
        SlideRow(
            deck=deck, slide=slide, says=says, planned=tuple(filter(None, labs.split(","))), command=command,
            source=source, erratum=erratum, reason=reason, draft_line=int(draft_line) if draft_line else None,
        )
        for deck, slide, says, labs, command, source, erratum, reason, draft_line in _rows(TABLE)
    )  # fmt: skip


def find_slides(deck: str, number: int | None = None) -> Sequence[SlideRow]:
    """The rows of a deck, or those with this page or line; a line between two rows belongs to the one before it.

    Raises ConfigError for an unknown deck or number.
    """
    if deck not in DECKS:
        raise ConfigError(f"no deck {shown(deck)}, there are: {', '.join(DECKS)}")
    rows = [row for row in slide_rows() if row.deck == deck or (deck == DRAFT and row.draft_line is not None)]
    if number is None:
        return rows
    found = [row for row in rows if row.deck == deck and row.has(number)]
    begun = {row: line for row in rows if (line := row.begins(deck)) is not None and line <= number <= LINES[deck]}
    if not found and begun:
        found = [row for row, line in begun.items() if line == max(begun.values())]
    if not found:
        raise ConfigError(f"deck {deck} has no row for page or line {number}; `headway deck {deck}` lists them")
    return found
