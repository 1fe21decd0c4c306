"""The documents of a prepared store's input: what a unit reads, one after the other, each in chunks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from headway.data.files import Errors, in_lines, place, read_chunks, read_lines
from headway.data.parquet_files import column_names, missing_column, open_parquet, read_columns
from headway.data.store_input import FileSlice, InputUnit, in_file_bytes
from headway.data.tables import checked_text, parse_object, read_rows, suffix, text_of
from headway.errors import DataError, shown

Documents = Iterator[Iterator[str]]  # each in chunks; all of one before the next
LINES = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReading:
    """How the input is read: the column of tables, bytes that are not UTF-8, and rows without a text."""

    column: str = "text"
    errors: Errors = "strict"
    skip_bad: bool = False


def documents(unit: InputUnit, reading: InputReading, on_bad: Callable[[str], None]) -> Documents:
    """The documents of a unit, each with a line end behind it: rows of tables, files, pieces of large files.

    Rows without a text are left out with `skip_bad`, and their errors given to `on_bad`. Raises DataError.
    """
    return chain.from_iterable(_documents(each, reading, on_bad) for each in unit.slices)


def _documents(given: FileSlice, reading: InputReading, on_bad: Callable[[str], None]) -> Documents:
    cuttable = in_file_bytes(given.path)
    read = given if cuttable else FileSlice(given.path)
    if suffix(given.path):
        rows = (f"{text}\n" for text in _rows(read, reading, on_bad))
        return (iter((row,)) for row in (rows if cuttable else _within(rows, given)))
    text = _text(read, reading)
    return iter((_with_line_end(text if cuttable else _within(text, given, lines=True)),))


def _text(given: FileSlice, reading: InputReading) -> Iterator[str]:
    return in_lines(read_chunks(given.path, errors=reading.errors, begin=given.begin, end=given.end))


def _with_line_end(chunks: Iterator[str]) -> Iterator[str]:
    last = "\n"
    for chunk in chunks:
        yield chunk
        last = chunk[-1]
    if last != "\n":
        yield "\n"


def _within(chunks: Iterable[str], given: FileSlice, *, lines: bool = False) -> Iterator[str]:
    """The chunks, or with `lines` the lines in them, that begin within a slice, by the bytes of text before them."""
    if given.begin == 0 and given.end is None:
        yield from chunks
        return
    at = 0
    for chunk in chunks:
        whole = at + text_bytes(chunk)
        divided = lines and any(bound is not None and at < bound < whole for bound in (given.begin, given.end))
        kept = []
        for part in LINES.findall(chunk) if divided else [chunk]:
            if at >= given.begin and (given.end is None or at < given.end):
                kept.append(part)
            at += text_bytes(part)
        if kept:
            yield "".join(kept)
        if given.end is not None and at >= given.end:
            return


def text_bytes(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _rows(given: FileSlice, reading: InputReading, on_bad: Callable[[str], None]) -> Iterator[str]:
    """The texts of a table. A row without one raises DataError, or is left out."""
    path, column = given.path, reading.column

    def kept(error: DataError) -> None:
        if not reading.skip_bad:
            raise error
        on_bad(str(error))

    kind = suffix(path)
    if kind == ".jsonl":
        lines = read_lines(path, errors=reading.errors, begin=given.begin, end=given.end)
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"{place(path, given.begin)}line {number}"
                try:
                    text = text_of(where, parse_object(line, where, [column]), column, reading.errors)
                except DataError as error:
                    kept(error)
                else:
                    yield text
    elif kind == ".parquet":
        with open_parquet(path) as file:
            if column not in column_names(file):
                raise missing_column(path, shown(column), column_names(file))
        for number, (cell,) in enumerate(read_columns(path, [column]), start=1):
            try:
                text = checked_text(f"{path}: row {number}", column, cell, reading.errors)
            except DataError as error:
                kept(error)
            else:
                yield text
    else:
        rows = read_rows(path, column, errors=reading.errors, on_bad_row=kept)
        yield from (text for (text,) in rows)


def sample(units: Iterable[InputUnit], reading: InputReading, most: int) -> Iterator[str]:
    """Text to train a tokenizer on: of evenly spaced units the first `most` bytes in all, beginning with the first."""
    train = [unit for unit in units if unit.split == "train"]
    chosen = min(len(train), 1024)
    each = most // max(chosen, 1)
    if not any(unit.streamed for unit in train) and sum(unit.bytes for unit in train) <= most:
        chosen, each = len(train), most
    for number in range(chosen):
        left = each
        for chunk in chain.from_iterable(documents(train[number * len(train) // chosen], reading, ignored)):
            yield chunk
            left -= text_bytes(chunk)
            if left <= 0:
                break


def ignored(message: str) -> None:
    """A row without a text, which is counted when it is encoded."""
