"""Reading files of data: UTF-8 text, plain or gzipped, streamed; errors name the file, line and byte.

Nothing here trusts a file: what is decompressed, a line, and a file that is read as a whole have limits
(`headway.limits`), and a file name that another file gives stays inside the data folder (`inside`).
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from headway.errors import DataError, one_line, shown
from headway.limits import expect_within, limit
from headway.suggestions import did_you_mean_path

Errors = Literal["strict", "replace"]
CHUNK = 1 << 20
MAX_NAME = 100  # characters of a name in a list of them
ANY_RATIO = 1 << 26  # decompressed bytes up to which a file may be compressed by any ratio
REPLACE = "pass --errors replace to continue"
CONVERT = f"if it is another encoding, convert the file (iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW), or {REPLACE}"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_chunks(path: Path, *, errors: Errors = "strict", begin: int = 0, end: int | None = None) -> Iterator[str]:
    """The text of a file in chunks of about 1 MiB, without a BOM and with \\r\\n as \\n.

    Of a file that is not compressed, the bytes from `begin` to `end` can be read alone; they must begin and end with a
    line. Raises DataError naming the file and, for invalid UTF-8 or NUL, the line and the byte in it (both from 1); for
    UTF-16 always, since every other character of it would be replaced.
    """
    held, line, column, started = b"", 1, 0, begin > 0  # line and column of the first byte held
    where = place(path, begin)
    for block in _blocks(path, begin, end):
        data = held + block
        if (line, column, begin) == (1, 0, 0) and data.startswith(UTF_16) and b"\0" in data:
            how = "save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"
            raise DataError(f"{path}: UTF-16 text, as Windows programs write it, expected UTF-8; {how}")
        body = data[:-1] if block and data.endswith(b"\r") else data  # it may be the first half of \r\n
        try:
            text, used = codecs.utf_8_decode(body, errors, not block)
        except UnicodeDecodeError as error:
            wrong = f"invalid UTF-8 (0x{body[error.start]:02X}); {CONVERT}"
            raise _bad_byte(where, body, error.start, line, column, wrong) from None
        if "\0" in text:
            if errors == "strict":
                raise _bad_byte(where, body, body.index(0), line, column, f"a NUL byte (0x00); {REPLACE}")
            text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        text = text.replace("\r\n", "\n")
        if text and not started:
            text, started = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"), True
        if text:
            yield text
        ends = body.count(b"\n", 0, used)
        line, column = line + ends, used - 1 - body.rfind(b"\n", 0, used) if ends else column + used
        held = data[used:]


def place(path: Path, begin: int = 0) -> str:
    """The beginning of a message about a line of a file, which is counted from this byte on."""
    return f"{path}: after byte {begin:,}: " if begin else f"{path}: "


def read_lines(path: Path, *, errors: Errors = "strict", begin: int = 0, end: int | None = None) -> Iterator[str]:
    """The lines of a file, split at \\n only: other line breaks (U+2028, \\x0b, a lone \\r) are data."""
    number, rest, longest = 0, "", limit("line")
    for chunk in read_chunks(path, errors=errors, begin=begin, end=end):
        *whole, rest = (rest + chunk).split("\n")
        yield from whole
        number += len(whole)
        if len(rest) > longest:  # a small gzip could otherwise fill the memory
            expect_within("line", len(rest), f"{place(path, begin)}line {number + 1}, at least", DataError)
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
    return listed([path.name for path in paths], most=most) or "nothing"


def contents(folder: Path, *, most: int = 20) -> str:
    """The names of what a folder holds, of folders with a slash, for an error message."""
    try:
        return listed(entries(folder), most=most) or "nothing"
    except DataError as error:
        return f"what {str(error).removeprefix(f'{folder}: ')}"


def entries(folder: Path) -> list[str]:
    """The names of what a folder holds, sorted, of folders with a slash, without hidden ones. Raises DataError."""
    try:
        there = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror})") from None
    return [f"{each.name}/" if each.is_dir() else each.name for each in there if not each.name.startswith(".")]


def listed(found: Sequence[str], *, most: int = 20) -> str:
    """Names from a file or folder for an error message: printable, short, and not too many."""
    more = f" and {len(found) - most:,} more" if len(found) > most else ""
    return ", ".join(one_line(name[: MAX_NAME + 1])[:MAX_NAME] for name in found[:most]) + more


def without_gz(path: Path) -> str:
    """The file name without .gz."""
    return path.name.removesuffix(".gz")


def read_bytes(path: Path, *, most: str = "file-bytes") -> bytes:
    """The content of a file, decompressed if it ends with .gz; `most` names its limit. Raises DataError."""
    blocks, size = [], 0
    for block in _blocks(path):
        blocks.append(block)
        size += len(block)
        expect_within(most, size, f"{path}, at least", DataError)
    return b"".join(blocks)


class DecompressedSize:
    """Counts the bytes that a compressed file becomes. Raises DataError for a file that becomes too many.

    A few hundred bytes can become gigabytes, so there is a limit on the ratio beside that on the size.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.compressed, self.total = path, max(path.stat().st_size, 1), 0

    def add(self, count: int) -> None:
        """Count more bytes."""
        self.total += count
        if self.total > ANY_RATIO:
            expect_within("decompressed-bytes", self.total, f"{self.path}: decompressed", DataError)
            ratio = math.ceil(self.total / self.compressed)
            expect_within("compression-ratio", ratio, f"{self.path}: decompressed", DataError)


def inside(folder: Path, name: str, where: str, *, below: Path | None = None) -> Path:
    """The path of a file that another file names, in a data folder, or in a folder below it.

    Raises DataError, beginning with `where`, for a name that leads out of the data folder: one that is absolute, has
    `..` in it, or passes through a link to another place. The file need not exist.
    """
    path = (below or folder) / name
    try:
        root, real = os.path.realpath(folder), os.path.realpath(path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()
    except (OSError, ValueError) as error:  # a name too long, or with a NUL
        raise DataError(
            f"{where}: {shown(name)} cannot be a file name ({getattr(error, 'strerror', None) or error})"
        ) from None
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts or not real.startswith(os.path.join(root, "")):
        raise DataError(
            f"{where}: {shown(name)} leads out of {folder}, expected a file inside it "
            "(`cp -rL` copies what links lead to)"
        )
    return path


def _blocks(path: Path, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The bytes of a file in blocks, decompressed if it ends with .gz, and an empty block at the end.

    `begin` and `end` are for a file that is not compressed.
    """
    try:
        if path.is_dir():
            raise DataError(f"{path}: a folder, expected a file")
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: not a regular file; data is read more than once, which a pipe does not allow")
        zipped = path.suffix == ".gz"
        with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
            counted = DecompressedSize(path) if zipped else None
            stream.seek(begin)
            while block := stream.read(CHUNK if end is None else min(CHUNK, end - begin)):
                begin += len(block)
                if counted is not None:
                    counted.add(len(block))
                yield block
    except FileNotFoundError:
        hint = did_you_mean_path(path).rstrip()
        raise DataError(f"{path}: no such file{f'; {hint}' if hint else ''}") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path}: a truncated or damaged gzip ({one_line(error)})") from None
    except (OSError, ValueError) as error:  # ValueError: an invalid path
        raise DataError(f"{str(path)!r}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    yield b""


def _bad_byte(where: str, body: bytes, at: int, line: int, column: int, wrong: str) -> DataError:
    ends = body.count(b"\n", 0, at)
    byte = at - body.rfind(b"\n", 0, at) if ends else column + at + 1
    return DataError(f"{where}line {line + ends}, byte {byte}: {wrong}")
