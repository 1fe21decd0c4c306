"""Pairs of texts as they are read: from two files aligned by line, or from two columns of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from headway.counts import counted
from headway.data.files import Errors, read_lines
from headway.data.tables import Pair, RowWidthError, read_rows
from headway.errors import DataError

SKIP = "correct the line, or pass --data.skip_bad true to leave such rows out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFiles:
    """Two files aligned by line, from line `start` to `stop`. Raises DataError if that is empty."""

    source: Path
    target: Path
    start: int = 0
    stop: int | None = None
    errors: Errors = "strict"

    def __iter__(self) -> Iterator[Pair]:
        empty = True
        for pair in islice(self._aligned(), self.start, self.stop):
            yield pair
            empty = False
        if empty:
            raise DataError(f"{self.name}: no lines, expected at least 1 pair")

    @property
    def name(self) -> str:
        """The files in error messages."""
        return f"{self.source} and {self.target}"

    def _aligned(self) -> Iterator[Pair]:
        """All pairs. Raises DataError if the files differ in length."""
        sources, targets = (read_lines(path, errors=self.errors) for path in (self.source, self.target))
        for count, (source, target) in enumerate(zip_longest(sources, targets)):
            if source is None or target is None:
                left, right = count + (source is not None), count + (target is not None)
                left, right = left + sum(1 for _ in sources), right + sum(1 for _ in targets)
                raise DataError(
                    f"{self.source} has {counted(left, 'line')} and {self.target} has {right}; expected the same"
                )
            yield source, target


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """The rows of a table from `start` to `stop`. Raises DataError if no row is in that range."""

    path: Path
    source: str
    target: str
    start: int = 0
    stop: int | None = None
    errors: Errors = "strict"
    numbers: bool = False  # whole numbers are read as text
    skip_bad: bool = False  # leave out rows with more or fewer cells than the first

    def __iter__(self) -> Iterator[Pair]:
        empty = True
        for source, target in islice(self._rows([]), self.start, self.stop):
            yield source, target
            empty = False
        if empty:
            raise DataError(f"{self.path}: no pairs, expected at least 1")

    @property
    def name(self) -> str:
        """The table in error messages."""
        return str(self.path)

    def left_out(self) -> int:
        """The bad rows of the whole table, by reading it."""
        if not self.skip_bad:
            return 0
        bad: list[RowWidthError] = []
        for _ in self._rows(bad):
            pass
        return len(bad)

    def _rows(self, bad: list[RowWidthError]) -> Iterator[tuple[str, ...]]:
        kept = bad.append if self.skip_bad else None
        try:
            yield from read_rows(
                self.path, self.source, self.target, errors=self.errors, numbers=self.numbers, on_bad_row=kept
            )
        except RowWidthError as error:
            raise DataError(f"{error}; {SKIP}") from None
