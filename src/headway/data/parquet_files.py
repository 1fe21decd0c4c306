"""Parquet files, read in batches of a few megabytes, however little space their content takes in the file.

A file of a kilobyte can hold gigabytes: a value that is stored once is repeated by its number, and pages are
compressed. So the header of each page is read first. It says how much the page holds, which no cell exceeds, and the
number of rows in a batch follows from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from headway.data.files import DecompressedSize, listed
from headway.errors import DataError, HeadwayError, NoColumnError, one_line, shown
from headway.extras import import_extra
from headway.limits import expect_within

MAX_BATCH_BYTES = 1 << 24  # of a column in a batch
MAX_BATCH_ROWS = 256
ROW_BYTES = 64  # what a row takes in Python beside its content
HEADER_BYTES = (1 << 8, 1 << 14, 1 << 22)  # tried in turn: a page header may quote the least and the largest value


@contextlib.contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """An open parquet file. Raises DataError if pyarrow is missing or cannot read it."""
    parquet = import_extra("pyarrow.parquet", "parquet", f"{path}: parquet", DataError)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except HeadwayError:
        raise
    except Exception as error:  # pyarrow may raise anything on invalid bytes
        reason = one_line(str(error).split("\n")[0] or type(error).__name__)
        raise DataError(f"{path}: not a readable parquet file ({reason})") from None


def read_columns(path: Path, columns: Sequence[str], *, lists: Collection[str] = ()) -> Iterator[tuple[Any, ...]]:
    """The rows of some columns of a file, as Python values. Raises DataError naming the file and the column.

    A column of a struct is named by its path, as in `image.bytes`. Columns of lists are read only if `lists` has them.
    """
    with open_parquet(path) as file, path.open("rb") as stream:
        leaves = [_leaf(path, file, name, lists=name in lists) for name in columns]
        decompressed = DecompressedSize(path)
        for group in range(file.metadata.num_row_groups):
            chunks = [file.metadata.row_group(group).column(leaf) for leaf in leaves]
            largest = max(_largest_page(path, stream, chunk) for chunk in chunks)
            rows = min(max(MAX_BATCH_BYTES // max(largest, 1), 1), MAX_BATCH_ROWS)
            for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=list(columns)):
                decompressed.add(batch.nbytes + ROW_BYTES * batch.num_rows)
                values = [_values(batch, name) for name in columns]
                del batch  # before the next one is read
                yield from zip(*values, strict=True)
                del values


def column_names(file: Any) -> list[str]:
    """The names of the columns of an open file."""
    return list(file.schema_arrow.names)


def leaf_names(file: Any) -> list[str]:
    """The paths of the columns of an open file; those of a struct are its fields, as in `image.bytes`."""
    return [file.schema.column(index).path for index in range(len(file.schema))]


def text_fields(file: Any) -> list[str]:
    """The fields of the structs of an open file that hold nothing but strings, as in `translation.en`."""
    found: dict[str, list[Any]] = {}
    for index in range(len(file.schema)):
        leaf = file.schema.column(index)
        found.setdefault(leaf.path.partition(".")[0], []).append(leaf)
    return [
        leaf.path
        for root, leaves in found.items()
        if root != leaves[0].path and all(_is_string(leaf) and leaf.path.count(".") == 1 for leaf in leaves)
        for leaf in leaves
    ]


def _is_string(leaf: Any) -> bool:
    return bool(leaf.logical_type.type == "STRING" and leaf.max_repetition_level == 0)


def is_text(file: Any, name: str) -> bool:
    """Whether a column of an open file holds strings or bytes."""
    names = leaf_names(file)
    return name in names and file.schema.column(names.index(name)).physical_type == "BYTE_ARRAY"


def missing_column(path: Path, wanted: str, there: Sequence[str]) -> NoColumnError:
    """The error for a file without a column."""
    return NoColumnError(f"{path}: no column {wanted}; there are: {listed(there)}")


def list_names(file: Any) -> list[str]:
    """The columns of an open file that hold lists of single values."""
    leaves = [(name.partition(".")[0], index) for index, name in enumerate(leaf_names(file))]
    roots = [root for root, _ in leaves]
    levels = {root: file.schema.column(index).max_repetition_level for root, index in leaves}
    return [root for root, level in levels.items() if level == 1 and roots.count(root) == 1]


def _leaf(path: Path, file: Any, name: str, *, lists: bool = False) -> int:
    """The index of a column without lists, or of one with lists of single values where `lists` allows it."""
    names = leaf_names(file)
    if name in names and file.schema.column(names.index(name)).max_repetition_level == 0:
        return names.index(name)
    if lists and name in list_names(file):
        return next(index for index, each in enumerate(names) if each.partition(".")[0] == name)
    raise DataError(f"{path}: column {shown(name)} is a list or a struct, expected single values")


def _values(batch: Any, name: str) -> list[Any]:
    """A column of a batch as Python values; of a struct the field, which is None where the struct is."""
    first, _, rest = name.partition(".") if name not in batch.schema.names else (name, "", "")
    values: list[Any] = batch.column(first).to_pylist()
    for key in filter(None, rest.split(".")):
        values = [None if value is None else value[key] for value in values]
    return values


def _largest_page(path: Path, stream: BinaryIO, chunk: Any) -> int:
    """The bytes of the largest page of a column chunk, decompressed. Raises DataError for one above the limit."""
    at, start = int(chunk.data_page_offset), chunk.dictionary_page_offset
    if chunk.has_dictionary_page and start is not None and 0 < start < at:
        at = int(start)
    end, largest = at + int(chunk.total_compressed_size), 0
    while at < end:
        decompressed, compressed, header = _page_sizes(path, stream, at)
        largest = max(largest, decompressed)
        at += header + compressed
    expect_within("cell-bytes", largest, f"{path}: column {shown(chunk.path_in_schema)}: a page", DataError)
    return largest


def _page_sizes(path: Path, stream: BinaryIO, at: int) -> tuple[int, int, int]:
    """The bytes of the page whose header is at this place: decompressed, compressed, and of the header."""
    for size in HEADER_BYTES:
        try:
            stream.seek(at)
            fields, end = _thrift_fields(stream.read(size), 0, 0)
        except (OSError, OverflowError, IndexError):  # IndexError: more bytes are needed
            continue
        except ValueError:
            break
        decompressed, compressed = fields.get(2, -1), fields.get(3, -1)
        if decompressed >= 0 and compressed >= 0:
            return decompressed, compressed, end
    raise DataError(f"{path}: not a readable parquet file (the page header at byte {at:,} is malformed)")


def _thrift_fields(data: bytes, at: int, depth: int) -> tuple[dict[int, int], int]:
    """The integers of a struct in Thrift's compact encoding by field number, and where it ends.

    Only what page headers have is read: integers, flags, bytes and structs. Raises ValueError for anything else, and
    IndexError for a struct that goes on beyond the data.
    """
    if depth > 4:
        raise ValueError("nested too deep")
    found: dict[int, int] = {}
    number = 0
    while data[at]:
        kind, step = data[at] & 15, data[at] >> 4
        at += 1
        if step:
            number += step
        else:
            number, at = _zigzag(data, at)
        if kind == 3:  # a byte
            at += 1
        elif kind in (4, 5, 6):  # integers
            found[number], at = _zigzag(data, at)
        elif kind == 7:  # a double
            at += 8
        elif kind == 8:  # bytes
            size, at = _varint(data, at)
            at += size
        elif kind == 12:
            _, at = _thrift_fields(data, at, depth + 1)
        elif kind not in (1, 2):  # flags have no content
            raise ValueError(f"kind {kind}")
    return found, at + 1


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number too long")
