"""Tables of text pairs: TSV, JSONL and (with pyarrow) parquet."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.data.files import Errors, read_lines, without_gz
from headway.errors import DataError

Pair = tuple[str, str]
SUFFIXES = (".tsv", ".jsonl", ".parquet")


def suffix(path: Path) -> str:
    """The table format of a file by its name, "" for none."""
    return next((each for each in SUFFIXES if without_gz(path).endswith(each)), "")


def read_rows(path: Path, source: str, target: str, *, errors: Errors = "strict") -> Iterator[Pair]:
    """The pairs of a table. Raises DataError naming the file and the line or row."""
    if suffix(path) == ".tsv":
        yield from _tsv(path, source, target, errors)
    elif suffix(path) == ".jsonl":
        yield from _jsonl(path, source, target, errors)
    else:
        yield from _parquet(path, source, target, errors)


def _tsv(path: Path, source: str, target: str, errors: Errors) -> Iterator[Pair]:
    """Columns by the names in the header if it has both, otherwise source and target in this order."""
    left, right, width = 0, 1, 2
    for number, line in enumerate(read_lines(path, errors=errors), start=1):
        fields = line.split("\t")
        if number == 1 and source in fields and target in fields:
            left, right, width = fields.index(source), fields.index(target), len(fields)
            continue
        if len(fields) != width:
            raise DataError(f"{path}: line {number} has {len(fields)} tab-separated columns, expected {width}")
        yield fields[left], fields[right]


def _jsonl(path: Path, source: str, target: str, errors: Errors) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path, errors=errors), start=1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # ValueError includes numbers of too many digits
            raise DataError(f"{where}: not JSON ({str(error) or type(error).__name__})") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: a JSON {type(row).__name__}, expected an object with {source!r} and {target!r}")
        yield _text(where, row, source, errors), _text(where, row, target, errors)


def _parquet(path: Path, source: str, target: str, errors: Errors) -> Iterator[Pair]:
    number = 0
    with open_parquet(path) as file:
        columns = file.schema_arrow.names
        for name in (source, target):
            if name not in columns:
                raise DataError(f"{path}: no column {name!r}; there are: {', '.join(columns)}")
        for batch in file.iter_batches(batch_size=1000, columns=[source, target]):
            for row in batch.to_pylist():
                number += 1
                where = f"{path}: row {number}"
                yield _text(where, row, source, errors), _text(where, row, target, errors)


@contextlib.contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """An open parquet file. Raises DataError if pyarrow is missing or cannot read it."""
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise DataError(f"{path}: parquet needs pyarrow: pip install 'headway[parquet]'") from None
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (OSError, UnicodeDecodeError, arrow.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: not a readable parquet file ({reason})") from None


def _text(where: str, row: dict[str, Any], key: str, errors: Errors) -> str:
    """A string value, checked for NUL and lone surrogates, which JSON can encode and UTF-8 text cannot."""
    if key not in row:
        raise DataError(f"{where}: no key {key!r}; there are: {', '.join(map(repr, row)) or 'none'}")
    value = row[key]
    if not isinstance(value, str):
        raise DataError(f"{where}: {key} is a {type(value).__name__}, expected a string")
    if not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value):
        return value
    if errors == "strict":
        raise DataError(f"{where}: {key} holds NUL or a lone surrogate; pass --errors replace to continue")
    return value.replace("\0", "\ufffd").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
