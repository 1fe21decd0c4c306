"""Reading text files: UTF-8, plain or gzipped, streamed; errors name the file, line and byte."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from headway.errors import DataError

Errors = Literal["strict", "replace"]
CHUNK = 1 << 20
MAX_LINE = 1 << 24  # characters in a line: a small gzip could otherwise fill the memory


def read_chunks(path: Path, *, errors: Errors = "strict") -> Iterator[str]:
    """The text of a file in chunks of about 1 MiB, without a BOM and with \\r\\n as \\n.

    Raises DataError naming the file and, for invalid UTF-8 or NUL, the line and the byte in it (both from 1).
    """
    held, line, column, started = b"", 1, 0, False  # line and column of the first byte held
    for block in _blocks(path):
        data = held + block
        body = data[:-1] if block and data.endswith(b"\r") else data  # it may be the first half of \r\n
        try:
            text, used = codecs.utf_8_decode(body, errors, not block)
        except UnicodeDecodeError as error:
            wrong = f"invalid UTF-8 (0x{body[error.start]:02X})"
            raise _bad_byte(path, body, error.start, line, column, wrong) from None
        if "\0" in text:
            if errors == "strict":
                raise _bad_byte(path, body, body.index(0), line, column, "a NUL byte (0x00)")
            text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        text = text.replace("\r\n", "\n")
        if text and not started:
            text, started = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"), True
        if text:
            yield text
        ends = body.count(b"\n", 0, used)
        line, column = line + ends, used - 1 - body.rfind(b"\n", 0, used) if ends else column + used
        held = data[used:]


def read_lines(path: Path, *, errors: Errors = "strict") -> Iterator[str]:
    """The lines of a file, split at \\n only: other line breaks (U+2028, \\x0b, a lone \\r) are data."""
    number, rest = 0, ""
    for chunk in read_chunks(path, errors=errors):
        *whole, rest = (rest + chunk).split("\n")
        yield from whole
        number += len(whole)
        if len(rest) > MAX_LINE:
            raise DataError(f"{path}: line {number + 1} is longer than the {MAX_LINE:,} characters allowed")
    if rest:
        yield rest


def in_lines(chunks: Iterable[str]) -> Iterator[str]:
    """The same text in chunks that end at a line end, unless a line is longer than a chunk."""
    held = ""
    for chunk in chunks:
        held += chunk
        cut = held.rfind("\n") + 1 or (len(held) if len(held) >= CHUNK else 0)
        if cut:
            yield held[:cut]
            held = held[cut:]
    if held:
        yield held


def listing(folder: Path) -> list[Path]:
    """The files of a folder sorted by name, without hidden ones."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror})") from None


def names(paths: Iterable[Path], *, most: int = 20) -> str:
    """File names for an error message."""
    found = [path.name for path in paths]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return (", ".join(found[:most]) or "nothing") + more


def without_gz(path: Path) -> str:
    """The file name without .gz."""
    return path.name.removesuffix(".gz")


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed if it ends with .gz. Raises DataError."""
    return b"".join(_blocks(path))


def _blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file in blocks, decompressed if it ends with .gz, and an empty block at the end."""
    try:
        if path.is_dir():
            raise DataError(f"{path}: a folder, expected a file")
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: not a regular file; data is read more than once, which a pipe does not allow")
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            while block := stream.read(CHUNK):
                yield block
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path}: a truncated or damaged gzip ({error})") from None
    except (OSError, ValueError) as error:  # ValueError: an invalid path
        raise DataError(f"{str(path)!r}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    yield b""


def _bad_byte(path: Path, body: bytes, at: int, line: int, column: int, wrong: str) -> DataError:
    ends = body.count(b"\n", 0, at)
    byte = at - body.rfind(b"\n", 0, at) if ends else column + at + 1
    return DataError(f"{path}: line {line + ends}, byte {byte}: {wrong}; pass --errors replace to continue")
