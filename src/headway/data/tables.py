"""Tables with columns of text: TSV, CSV, JSONL and (with pyarrow) parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from headway.data.csv_files import read_csv
from headway.data.files import Errors, listed, read_lines, without_gz
from headway.data.parquet_files import column_names, missing_column, open_parquet, read_columns, text_fields
from headway.documents import parse_json
from headway.errors import DataError, NoColumnError, one_line, shown
from headway.suggestions import did_you_mean

Pair = tuple[str, str]
SUFFIXES = (".tsv", ".csv", ".jsonl", ".parquet")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


def suffix(path: Path) -> str:
    """The table format of a file by its name, "" for none."""
    return next((each for each in SUFFIXES if without_gz(path).lower().endswith(each)), "")


class RowWidthError(DataError):
    """A row with more or fewer cells than the header."""


def read_rows(
    path: Path,
    *columns: str,
    errors: Errors = "strict",
    numbers: bool = False,
    values: Collection[str] = (),
    on_bad_row: Callable[[RowWidthError], None] | None = None,
) -> Iterator[tuple[str, ...]]:
    """The cells of these columns, row by row. Raises DataError naming the file and the line or row.

    Columns go by name: the header of TSV and CSV, the keys of JSONL, `translation.en` for a field of an object in a
    row. TSV and CSV without a header have columns by number, from "1"; TSV with as many columns as are asked for may
    also have them in this order. `numbers` allows whole numbers and truth values in JSONL and parquet, for instance as
    classes. In the columns `values` they may also have other numbers, null ("" here) and lists, which become JSON:
    labels. A row of TSV or CSV with more or fewer cells than the first is left out if there is an `on_bad_row`, which
    is told, and raises RowWidthError otherwise.
    """
    kind = suffix(path)
    if kind in (".tsv", ".csv"):
        yield from _separated(path, columns, errors, on_bad_row)
    elif kind == ".jsonl":
        yield from _jsonl(path, columns, errors, numbers, values)
    else:
        yield from _parquet(path, columns, errors, numbers, values)


def read_separated(path: Path, *, errors: Errors = "strict") -> Iterator[tuple[int, list[str]]]:
    """The rows of a TSV or CSV file, a header included, each with the line in which it begins."""
    if suffix(path) == ".csv":
        return read_csv(path, errors=errors)
    return ((number, line.split("\t")) for number, line in enumerate(read_lines(path, errors=errors), start=1))


def _separated(
    path: Path, columns: Sequence[str], errors: Errors, on_bad_row: Callable[[RowWidthError], None] | None
) -> Iterator[tuple[str, ...]]:
    places: list[int] | None = None
    width = 0
    for number, cells in read_separated(path, errors=errors):
        if places is None:
            names = [cell.strip() for cell in cells]
            places, width = _places(path, names, columns), len(cells)
            if all(name in names for name in columns):
                continue
        if len(cells) != width:
            kind = "tab-separated columns" if suffix(path) == ".tsv" else "columns"
            error = RowWidthError(f"{path}: line {number} has {len(cells)} {kind}, expected {width}")
            if on_bad_row is None:
                raise error
            on_bad_row(error)
            continue
        yield tuple([cells[place] for place in places])


def _places(path: Path, names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Where the columns are, by the cells of the first row. Raises DataError for a column that is not there."""
    if all(name in names for name in columns):
        for name in columns:
            if names.count(name) > 1:
                raise DataError(f"{path}: {names.count(name)} columns are named {shown(name)}, expected one")
        return [names.index(name) for name in columns]
    if all(name.isdecimal() and 1 <= int(name[:9]) <= len(names) for name in columns):
        return [int(name) - 1 for name in columns]
    if suffix(path) == ".tsv":
        if len(names) == len(columns):
            return list(range(len(columns)))
        wanted = " and ".join(map(shown, columns))
        hint = f"none is named {wanted}; a table without a header has columns by number, from 1"
        raise DataError(
            f"{path}: line 1 has {len(names)} tab-separated columns, expected {len(columns)} or a header: {hint}"
        )
    missing = next(name for name in columns if name not in names)
    hint = did_you_mean(missing, names).rstrip() or "a table without a header has columns by number, from 1"
    raise NoColumnError(f"{missing_column(path, shown(missing), names)}; {hint}")


def _jsonl(
    path: Path, columns: Sequence[str], errors: Errors, numbers: bool, values: Collection[str]
) -> Iterator[tuple[str, ...]]:
    for where, row in read_objects(path, columns, errors=errors):
        written = {name: _written(row[name]) for name in values if name in row}
        yield tuple([text_of(where, {**row, **written}, name, errors, numbers) for name in columns])


def read_objects(
    path: Path, columns: Sequence[str] = (), *, errors: Errors = "strict"
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSONL file, each with its place for messages; `columns` are those that a message names."""
    for number, line in enumerate(read_lines(path, errors=errors), start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        yield where, parse_object(line, where, columns)


def parse_object(line: str, where: str, columns: Sequence[str] = ()) -> dict[str, Any]:
    """The object of a line of JSONL. Raises DataError, beginning with `where`, which names `columns`."""
    row = parse_json(line, where, nonfinite=True, large_integers=True, surrogates=True)
    if not isinstance(row, dict):
        wanted = f" with {' and '.join(map(shown, columns))}" if columns else ""
        raise DataError(f"{where}: a JSON {type(row).__name__}, expected an object{wanted}")
    return row


def _parquet(
    path: Path, columns: Sequence[str], errors: Errors, numbers: bool, values: Collection[str]
) -> Iterator[tuple[str, ...]]:
    with open_parquet(path) as file:
        there = [*column_names(file), *text_fields(file)]
    for name in columns:
        if name not in there:
            raise missing_column(path, shown(name), there)
    for number, row in enumerate(read_columns(path, columns, lists=values), start=1):
        where = f"{path}: row {number}"
        cells = [_written(cell) if name in values else cell for name, cell in zip(columns, row, strict=True)]
        yield tuple([_string(where, name, cell, errors, numbers) for name, cell in zip(columns, cells, strict=True)])


def _written(value: Any) -> Any:
    """A label as text: null, numbers and lists of strings and numbers; anything else stays as it is."""
    if value is None:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, list) and all(isinstance(each, str | int) for each in value):
        return json.dumps(value, ensure_ascii=False)
    return value


def text_of(where: str, row: dict[str, Any], key: str, errors: Errors = "strict", numbers: bool = False) -> str:
    """The text of an object at a key, or at a key of an object in it (`translation.en`). Raises DataError."""
    outer, _, inner = key.partition(".")
    if key not in row and isinstance(row.get(outer), dict) and inner in row[outer]:
        return _string(where, key, row[outer][inner], errors, numbers)
    if key not in row:
        raise DataError(f"{where}: no key {shown(key)}; there are: {listed([shown(name) for name in row]) or 'none'}")
    return _string(where, key, row[key], errors, numbers)


def _string(where: str, key: str, value: Any, errors: Errors, numbers: bool) -> str:
    """A string value, checked for NUL and lone surrogates, which JSON can encode and UTF-8 text cannot."""
    if numbers and isinstance(value, int) and value.bit_length() <= 64:
        return str(value).lower()
    return checked_text(where, key, value, errors)


def checked_text(where: str, key: str, value: Any, errors: Errors = "strict") -> str:
    """A value that must be a string, without NUL and lone surrogates. Raises DataError."""
    if not isinstance(value, str):
        raise DataError(f"{where}: {one_line(key)} is a {type(value).__name__}, expected a string")
    if not _NOT_TEXT.search(value):
        return value
    if errors == "strict":
        raise DataError(f"{where}: {one_line(key)} holds NUL or a lone surrogate; pass --errors replace to continue")
    return value.replace("\0", "\ufffd").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
