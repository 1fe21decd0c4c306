"""What the beginning of a table shows: whether it has a header, its columns, its first rows, and about how many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from headway.data.parquet_files import column_names, leaf_names, list_names, open_parquet, read_columns, text_fields
from headway.data.tables import read_objects, read_separated, suffix
from headway.data.text_files import table_splits
from headway.errors import DataError
from headway.suggestions import did_you_mean

ROWS = 200  # looked at
CHARACTERS = 1 << 20  # looked at, in all cells together
GZIP_RATIO = 3  # of text, for an estimate
LABELS = (
    "label", "labels", "class", "category", "sentiment", "intent", "topic", "polarity", "genre", "emotion", "target",
    "rating", "stars", "score", "tag", "y", "tags", "topics", "categories", "genres", "emotions", "similarity",
)  # fmt: skip
TEXTS = (
    "text", "sentence", "review", "content", "comment", "message", "body", "document", "utterance", "tweet", "article",
    "description", "headline", "title", "question", "input", "x",
)  # fmt: skip
PAIRS = (
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("input", "output"), ("question", "answer"),
    ("prompt", "completion"), ("prompt", "response"), ("instruction", "output"), ("instruction", "response"),
    ("document", "summary"), ("article", "summary"), ("text", "summary"), ("article", "highlights"),
)  # fmt: skip
# Two texts that have a label together, as in sentence similarity and entailment.
TEXT_PAIRS = (
    ("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("sentence_a", "sentence_b"), ("text1", "text2"),
    ("text_1", "text_2"), ("text_a", "text_b"), ("text", "text2"), ("premise", "hypothesis"),
    ("question1", "question2"), ("question", "sentence"), ("query", "passage"), ("query", "document"),
)  # fmt: skip
LONGEST_NAME = 60  # characters of the name of a column or a class
SENTENCE = 4  # words: a cell of the first row with as many is not the name of a column


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSurvey:
    """The columns of a table (numbers from 1 where it has no header), its first rows, and about how many there are."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    count: int
    header: bool = True
    lists: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)  # columns of lists of names, by name

    def in_order(self, *columns: str) -> bool:
        """Whether a reader takes these columns unnamed: all those of a TSV file without a header, in their order."""
        return not self.header and suffix(self.path) == ".tsv" and columns == self.columns

    def cells(self, column: str) -> list[str]:
        """The first cells of a column. Raises DataError if there is no such column."""
        if column not in self.columns:
            hint = did_you_mean(column, self.columns)
            raise DataError(f"{self.path}: no column {column!r}; {hint}there are: {', '.join(self.columns)}")
        place = self.columns.index(column)
        return [row[place] for row in self.rows]

    def words(self, column: str) -> float:
        """The mean number of words in a cell; in scripts without spaces, of characters."""
        return sum(map(_words, self.cells(column))) / max(len(self.rows), 1)

    def characters(self, column: str) -> float:
        """The mean number of characters in a cell."""
        return sum(map(len, self.cells(column))) / max(len(self.rows), 1)

    def classes(self, column: str) -> tuple[str, ...]:
        """The distinct cells, sorted."""
        return tuple(sorted(set(self.cells(column))))

    def named(self, names: Iterable[str]) -> str | None:
        """The first of some names that a column has, whatever its case."""
        known = {column.casefold(): column for column in reversed(self.columns)}
        return next((known[name] for name in names if name in known), None)


def survey_table(path: Path) -> TableSurvey | None:
    """The beginning of a table, or of the train table in a folder; None for what is neither. Raises DataError."""
    if path.is_dir():
        train = table_splits(path).get("train")
        return None if train is None else survey_table(train)
    kind = suffix(path)
    if not kind or not path.is_file():
        return None
    if kind == ".parquet":
        return _parquet(path)
    return _jsonl(path) if kind == ".jsonl" else _separated(path)


def _separated(path: Path) -> TableSurvey:
    """A TSV or CSV file. CSV has a header unless its first row looks like data, TSV only if its first row does not."""
    rows = _beginning(cells for _, cells in read_separated(path, errors="replace"))
    if not rows:
        raise DataError(f"{path}: an empty table, expected a row")
    first = [cell.strip() for cell in rows[0]]
    body = [row for row in rows[1:] if len(row) == len(first)]
    pairs = {name for pair in (*PAIRS, *TEXT_PAIRS) for name in pair}
    known = {name.casefold() for name in first} & {*LABELS, *TEXTS, *pairs}
    tidy = all(first) and len(set(first)) == len(first) and not any(map(_is_data, first))
    below = any(_is_data(cell) for row in body for cell in row)
    header = tidy and bool(body) and (bool(known) or suffix(path) == ".csv" or below)
    columns = tuple(first) if header else tuple(str(n + 1) for n in range(len(first)))
    kept = tuple(tuple(row) for row in (body if header else [rows[0], *body]))
    count = len(kept) if _is_whole(rows) else _estimate(path, kept, 1)
    return TableSurvey(path=path, columns=columns, rows=kept, count=count, header=header)


def _jsonl(path: Path) -> TableSurvey:
    objects = [row for _, row in islice(read_objects(path, errors="replace"), ROWS)]
    if not objects:
        raise DataError(f"{path}: an empty table, expected a row")
    lists = {name: cells for name in objects[0] if (cells := _names([row.get(name) for row in objects]))}
    objects = [_with_fields(row) for row in objects]
    columns = tuple(
        name for name in objects[0] if all(isinstance(row.get(name), str | int | float | None) for row in objects)
    )
    rows = tuple(tuple(_cell(row.get(name)) for name in columns) for row in objects)
    count = len(rows) if len(rows) < ROWS else _estimate(path, rows, len('"": "", '))
    return TableSurvey(path=path, columns=columns, rows=rows, count=count, lists=lists)


def _with_fields(row: dict[str, Any]) -> dict[str, Any]:
    """A row, and the fields of the objects in it: `translation.en`."""
    inner = {name: value for name, value in row.items() if isinstance(value, dict)}
    return row | {f"{name}.{key}": cell for name, value in inner.items() for key, cell in value.items()}


def _parquet(path: Path) -> TableSurvey:
    with open_parquet(path) as file:
        leaves = leaf_names(file)
        columns = tuple(
            name
            for name in column_names(file)
            if name in leaves and file.schema.column(leaves.index(name)).max_repetition_level == 0
        )
        columns += tuple(text_fields(file))
        count = int(file.metadata.num_rows)
        listed = list_names(file)
    lists = {name: cells for name in listed if (cells := _names(_first_lists(path, name)))}
    rows = _beginning([_cell(cell) for cell in row] for row in read_columns(path, columns)) if columns else []
    binary = {n for row in rows for n, cell in enumerate(row) if cell is _BINARY}
    kept = [n for n in range(len(columns)) if n not in binary]
    return TableSurvey(
        path=path,
        columns=tuple(columns[n] for n in kept),
        rows=tuple(tuple(row[n] for n in kept) for row in rows),
        count=count,
        lists=lists,
    )


def _first_lists(path: Path, name: str) -> list[Any]:
    return [row[0] for row in islice(read_columns(path, [name], lists=[name]), ROWS)]


def _names(cells: Sequence[Any]) -> tuple[tuple[str, ...], ...]:
    """Cells that are lists of strings or whole numbers, as text; () if one is something else."""
    if not all(isinstance(cell, list) and all(isinstance(each, str | int) for each in cell) for cell in cells):
        return ()
    return tuple(tuple(map(str, cell)) for cell in cells)


_BINARY = "\0"  # what stands for a cell of bytes, as those of an image


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return _BINARY if isinstance(value, bytes | dict | list) else str(value)


def _beginning(rows: Iterable[list[str]]) -> list[list[str]]:
    found: list[list[str]] = []
    size = 0
    for row in islice(rows, ROWS):
        found.append(row)
        size += sum(map(len, row))
        if size > CHARACTERS:
            break
    return found


def _words(cell: str) -> int:
    """Words, and characters of scripts that write without spaces."""
    return len(cell.split()) + sum(1 for char in cell if "\u3040" <= char <= "\u9fff")


def _is_data(cell: str) -> bool:
    """Whether a cell can hardly be the name of a column."""
    return len(cell) > LONGEST_NAME or _words(cell) >= SENTENCE or re.fullmatch(r"[-+]?\d[\d.,]*", cell) is not None


def _is_whole(rows: list[list[str]]) -> bool:
    """Whether the beginning of a table is all of it."""
    return len(rows) < ROWS and sum(len(cell) for row in rows for cell in row) <= CHARACTERS


def _estimate(path: Path, rows: Sequence[Sequence[str]], around: int) -> int:
    """The rows of a file by the bytes of its first ones; `around` are those that a cell has around it."""
    size = path.stat().st_size * (GZIP_RATIO if path.suffix == ".gz" else 1)
    seen = sum(len(cell.encode("utf-8", "replace")) + around for row in rows for cell in row)
    return max(round(size * len(rows) / max(seen, 1)), len(rows))
