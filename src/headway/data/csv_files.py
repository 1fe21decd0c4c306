"""CSV files: RFC 4180 with quotes, separated by commas, semicolons or tabs; streamed, within limits."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from headway.data.files import Errors, read_chunks, read_lines
from headway.errors import DataError, one_line
from headway.limits import expect_within, limit

DELIMITERS = (",", ";", "\t")
HEAD = 1 << 16  # characters by which the delimiter is found; Python's own limit of a cell is twice that
HEAD_ROWS = 50


def read_csv(path: Path, *, errors: Errors = "strict") -> Iterator[tuple[int, list[str]]]:
    """The rows of a file, the header included, each with the line in which it begins; empty lines are left out.

    Raises DataError naming the file and the line for quotes that are not those of RFC 4180, and for a row or a number
    of columns above its limit.
    """
    lines = _RowLines(path, errors)
    reader = csv.reader(lines, delimiter=find_delimiter(path, errors=errors), strict=True)
    while (row := _next_row(path, reader, lines)) is not None:
        if row:
            expect_within("list", len(row), f"{path}: columns in line {lines.first}", DataError)
            yield lines.first, row


def find_delimiter(path: Path, *, errors: Errors = "strict") -> str:
    """The delimiter by which the beginning of a file has the same number of columns in every row, at least two.

    Where several do, the one with most columns; where none does, the one that the first row has most of.
    """
    text = next(read_chunks(path, errors=errors), "")
    whole = len(text) <= HEAD
    lines = [f"{line}\n" for line in text[:HEAD].split("\n") if line]
    first = lines[0] if lines else ""

    def fitness(delimiter: str) -> tuple[int, int]:
        try:
            rows = list(islice(filter(None, csv.reader(lines, delimiter=delimiter)), HEAD_ROWS))
        except csv.Error:
            rows = []
        if not whole and 1 < len(rows) < HEAD_ROWS:
            rows.pop()  # it may be cut
        widths = {len(row) for row in rows}
        alike = len(widths) == 1 and min(widths) > 1
        return (min(widths), 0) if alike else (0, first.count(delimiter))

    return max(DELIMITERS, key=fitness)  # of equal ones the first


class _RowLines:
    """The lines of a file for `csv.reader`, with the line in which the present row begins.

    Raises DataError for a row of too many characters: a quote that is never closed would take in the whole file.
    """

    def __init__(self, path: Path, errors: Errors) -> None:
        self.path, self.lines = path, read_lines(path, errors=errors)
        self.number, self.first, self.size = 0, 1, 0

    def begin_row(self) -> None:
        """The next line is the first of a row."""
        self.first, self.size = self.number + 1, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        self.number += 1
        self.size += len(line) + 1
        expect_within("cell-bytes", self.size, f"{self.path}: the row in line {self.first}, at least", DataError)
        return f"{line}\n"


def _next_row(path: Path, reader: Iterable[list[str]], lines: _RowLines) -> list[str] | None:
    """The next row, None at the end."""
    lines.begin_row()
    before = csv.field_size_limit(limit("cell-bytes"))  # one number for the whole process, so it is put back
    try:
        return next(iter(reader), None)
    except csv.Error as error:
        why = "a quote is not closed" if "unexpected end" in str(error) else one_line(error)
        hint = "a quote inside a quoted cell is written twice"
        raise DataError(f"{path}: line {lines.first}: not CSV ({why}); {hint}") from None
    finally:
        csv.field_size_limit(before)
