"""A large file of lines, cut into units: where they begin is found once, and each is then read by itself."""

from __future__ import annotations

import codecs
import hashlib
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError
from headway.limits import expect_within, limit

CHUNK = 1 << 22
DIGEST = 32  # bytes of a SHA-256


class LineStream(Protocol):
    """A binary file, as far as `decoded_lines` reads it."""

    def readline(self, size: int, /) -> bytes:
        """The next line with its end, or its first `size` bytes."""
        ...


def decoded_lines(stream: LineStream, name: str, *, first: int = 1) -> Iterator[str]:
    """The lines of a binary stream without their ends, the first of them being line `first` of what is called `name`.

    Raises DataError for what cannot be read, with line and byte for invalid UTF-8, and for a line above the limit.
    """
    most = 4 * limit("line") + 2  # bytes of the longest line, with its end
    number = first - 1
    while True:
        try:
            line = stream.readline(most)
        except OSError as error:
            raise DataError(f"{name}: could not be read ({error.strerror})") from error
        if not line:
            return
        number += 1
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            if len(line) < most:
                raise DataError(f"{name}: line {number}, byte {error.start + 1}: invalid UTF-8") from None
            text = line.decode("utf-8", "replace")  # cut inside a character, far above the limit
        text = text.rstrip("\r\n")
        expect_within("line", len(text), f"{name}: line {number}", DataError)
        yield text


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUnits:
    """Where the units of a file of lines begin, and the digests of their bytes; the last one may have fewer lines."""

    lines: int  # of the file
    unit: int  # lines
    offsets: NDArray[np.int64]  # (units + 1,) bytes
    digests: NDArray[np.uint8]  # (units, DIGEST)

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def digest(self) -> str:
        """A digest of the whole file."""
        return hashlib.sha256(self.digests.tobytes()).hexdigest()

    def first(self, number: int) -> int:
        """The number of the first line of a unit, from 1."""
        return number * self.unit + 1

    def count(self, number: int) -> int:
        """How many lines a unit has."""
        return min(self.unit, self.lines - number * self.unit)

    def described(self, number: int) -> str:
        """A unit for people."""
        first = self.first(number)
        return f"unit {number} (lines {first:,} to {first + self.count(number) - 1:,})"

    def read(self, path: Path, number: int) -> Iterator[str]:
        """The lines of a unit, one after the other.

        Raises DataError as `decoded_lines` does, and at the end if the bytes are not those that were scanned.
        """
        with _opened(path) as handle, os.fdopen(handle, "rb", CHUNK, closefd=False) as file:
            file.seek(int(self.offsets[number]))
            part = _FilePart(file, int(self.offsets[number + 1] - self.offsets[number]))
            yield from decoded_lines(part, str(path), first=self.first(number))
            if part.left or part.hashed.digest() != self.digests[number].tobytes():
                raise DataError(f"{path}: {self.described(number)} has changed since the job was begun")


class _FilePart:
    """The next bytes of a file as a stream of their own, hashed as they are read."""

    def __init__(self, file: LineStream, size: int) -> None:
        self.file, self.left, self.hashed = file, size, hashlib.sha256()

    def readline(self, size: int, /) -> bytes:
        line = self.file.readline(min(size, self.left)) if self.left else b""
        self.left -= len(line)
        self.hashed.update(line)
        return line


def scan_lines(path: Path, unit: int, progress: Callable[[str, int, int], None]) -> LineUnits:
    """Cut a file into units of `unit` lines, and check all of its lines, in one pass and a few megabytes of memory.

    Raises DataError for the first line that a command could not read, as `decoded_lines` does.
    """
    offsets, digests = array("q", [0]), bytearray()
    decoder, hashed = codecs.getincrementaldecoder("utf-8")(), hashlib.sha256()
    lines = at = pending = longest = 0  # pending: bytes since the last line end
    with _opened(path) as handle:
        size = os.fstat(handle).st_size
        while chunk := _read(path, handle):
            _decode(path, decoder, chunk)
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == 10) + 1
            longest = max(longest, int(np.diff(ends, prepend=-pending).max(initial=0)))
            pending = len(chunk) - int(ends[-1]) if len(ends) else pending + len(chunk)
            begin = 0
            for end in ends[unit - 1 - lines % unit :: unit].tolist():
                hashed.update(memoryview(chunk)[begin:end])
                offsets.append(at + end)
                digests += hashed.digest()
                hashed, begin = hashlib.sha256(), end
            hashed.update(memoryview(chunk)[begin:])
            lines, at = lines + len(ends), at + len(chunk)
            progress("lines counted, by bytes", at, size)
    _decode(path, decoder, b"")
    if pending:  # the last line has no end
        lines += 1
    if at > offsets[-1]:
        offsets.append(at)
        digests += hashed.digest()
    if max(longest, pending) > limit("line"):  # in bytes; the limit is in characters
        check_lines(path)
    found = np.frombuffer(bytes(digests), np.uint8).reshape(-1, DIGEST)
    return LineUnits(lines=lines, unit=unit, offsets=np.asarray(offsets, np.int64), digests=found)


def check_lines(path: Path) -> None:
    """Raise DataError for the first line of a file that a command could not read."""
    with _opened(path) as handle, os.fdopen(handle, "rb", CHUNK, closefd=False) as file:
        for _ in decoded_lines(file, str(path)):
            pass


def _decode(path: Path, decoder: codecs.IncrementalDecoder, chunk: bytes) -> None:
    try:
        decoder.decode(chunk, not chunk)
    except UnicodeDecodeError:
        check_lines(path)  # raises, with the line
        raise DataError(f"{path}: changes while it is read") from None


def _read(path: Path, handle: int) -> bytes:
    try:
        return os.read(handle, CHUNK)
    except OSError as error:
        raise DataError(f"{path}: could not be read ({error.strerror})") from error


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A regular file, open to be read. Raises DataError for anything else: a pipe cannot be read twice."""
    try:
        if not path.is_file():
            raise DataError(f"{path}: {'not a regular file' if os.path.lexists(path) else 'no such file'}")
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: could not be read ({getattr(error, 'strerror', error)})") from error
    try:
        yield handle
    finally:
        os.close(handle)
