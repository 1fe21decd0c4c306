"""Read an untrusted GGUF file: metadata, and where each tensor lies; every limit is checked before anything is read.

The file is a magic number, a version and two counts; then the metadata as pairs of a key and a typed value, an entry
for each tensor, and from the next multiple of the alignment on the tensors. All numbers are little-endian.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from headway.errors import BadModelError, shown
from headway.interop.gguf_blocks import BLOCKS, TYPE_NAMES, dequantise
from headway.limits import limit

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_HEADER_BYTES = 100_000_000  # of the metadata and the entries of the tensors
MAX_KEYS, MAX_TENSORS, MAX_RANK = 10_000, 100_000, 4
MAX_NAME, MAX_STRING = 1_024, 4_000_000  # bytes of a key or a tensor's name, and of a value (a chat template is one)
ALIGNMENT = 32  # bytes, unless general.alignment says otherwise
MAX_ALIGNMENT = 2**20
# The types of metadata values by number: their layout for struct, or the three that have none.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
BOOL, STRING, ARRAY = 7, 8, 9


@dataclass(frozen=True, slots=True)
class GgufEntry:
    """A tensor of the file: its block type, its shape, and its bytes from `begin` to `end`."""

    type: str
    shape: tuple[int, ...]  # rows first, as torch has it; the file has it reversed
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The metadata and the tensors of a GGUF file."""

    path: Path
    metadata: dict[str, Any]  # arrays of numbers are `array.array`, of strings lists
    tensors: dict[str, GgufEntry]

    def read(self, name: str) -> Tensor:
        """One tensor, dequantised to float32; float16 and bfloat16 stay what they are.

        The file is memory-mapped. Raises BadModelError if it has been truncated since.
        """
        entry = self.tensors[name]
        first = entry.begin - entry.begin % mmap.ALLOCATIONGRANULARITY
        with self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < entry.end:
                raise BadModelError(f"{self.path}: ends within tensor {shown(name)}")
            # A private mapping that is never written to: torch requires writable memory.
            mapped = mmap.mmap(file.fileno(), entry.end - first, access=mmap.ACCESS_COPY, offset=first)
        data = torch.frombuffer(mapped, dtype=torch.uint8, count=entry.end - entry.begin, offset=entry.begin - first)
        return dequantise(data, entry.type).view(entry.shape)


def is_gguf(path: Path) -> bool:
    """Whether a path is a regular file that begins as a GGUF file does, whatever its name."""
    try:
        with path.open("rb") if path.is_file() else contextlib.nullcontext() as file:
            return file is not None and file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_gguf(path: Path) -> GgufFile:
    """The metadata and tensor entries of a GGUF file.

    Raises BadModelError naming the file, and the key or tensor if it is one's error.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # asked before it is opened: a pipe would wait for its other end
            raise BadModelError(f"{path}: not a regular file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(4) != MAGIC:
                what = f"it does not begin with {MAGIC.decode()}"
                raise BadModelError(f"{path}: not a GGUF file ({what}); other models are imported by their folder")
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapped:
                return _Header(mapped, size, path).parse()
    except OSError as error:
        raise BadModelError(f"{path}: missing or unreadable ({type(error).__name__})") from None


class _Header:
    """A position in the header; every read is checked against the end of the file first."""

    def __init__(self, data: mmap.mmap, size: int, path: Path) -> None:
        self.data, self.size, self.path, self.at = data, size, path, len(MAGIC)

    def fail(self, message: str) -> NoReturn:
        """Raise BadModelError naming the file."""
        raise BadModelError(f"{self.path}: {message}")

    def parse(self) -> GgufFile:
        """Everything before the tensors' numbers."""
        version = self.number("I")
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "big"), "little")
            big = f"GGUF version {swapped} in big-endian order" if swapped in VERSIONS else f"GGUF version {version}"
            self.fail(f"{big}, allowed: {', '.join(map(str, VERSIONS))}, little-endian")
        tensors, keys = self.count(MAX_TENSORS, "tensors"), self.count(MAX_KEYS, "metadata keys")
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            key = self.string(MAX_NAME, "a metadata key")
            if key in metadata:
                self.fail(f"metadata key {shown(key)} is there twice")
            metadata[key] = self.value(key)
        entries = [self.entry() for _ in range(tensors)]
        return GgufFile(self.path, metadata, self.places(entries, self.alignment(metadata)))

    def take(self, count: int) -> int:
        """Advance by some bytes and return where they begin. Raises BadModelError at the end of the file."""
        begin, self.at = self.at, self.at + count
        if self.at > self.size:
            self.fail(f"truncated: its header goes on after the end ({self.size:,} bytes)")
        if self.at > MAX_HEADER_BYTES:
            self.fail(f"a header of more than {MAX_HEADER_BYTES:,} bytes")
        return begin

    def number(self, layout: str) -> Any:
        """One number of a layout of struct."""
        return struct.unpack_from(f"<{layout}", self.data, self.take(struct.calcsize(f"<{layout}")))[0]

    def count(self, most: int, what: str) -> int:
        """A number of things that follow."""
        value: int = self.number("Q")
        if value > most:
            self.fail(f"{value:,} {what}, allowed: up to {most:,}")
        return value

    def string(self, most: int, what: str) -> str:
        """A length and UTF-8. Bytes that are not UTF-8, as in tokens of some old files, become replacement marks."""
        length = self.count(most, f"bytes in {what}")
        begin = self.take(length)
        return self.data[begin : begin + length].decode(errors="replace")

    def value(self, key: str) -> Any:
        """A metadata value after its type."""
        kind = self.number("I")
        if kind == BOOL:
            return self.number("B") != 0
        if kind == STRING:
            return self.string(MAX_STRING, f"the value of {shown(key)}")
        if kind == ARRAY:
            return self.values(key)
        if kind not in NUMBERS:
            self.fail(f"metadata key {shown(key)}: value type {kind}, allowed: 0 to 12")
        return self.number(NUMBERS[kind])

    def values(self, key: str) -> Any:
        """An array of numbers or strings."""
        kind = self.number("I")
        if kind not in NUMBERS and kind not in (BOOL, STRING):
            self.fail(f"metadata key {shown(key)}: an array of type {kind}, allowed: numbers, booleans and strings")
        length = self.count(limit("vocabulary"), f"values in {shown(key)}")
        if kind == STRING:
            return [self.string(MAX_STRING, f"a value of {shown(key)}") for _ in range(length)]
        layout = NUMBERS.get(kind, "B")
        found = array(layout)
        begin = self.take(length * found.itemsize)
        found.frombytes(self.data[begin : self.at])
        return found

    def entry(self) -> tuple[str, str, tuple[int, ...], int]:
        """Name, type, shape and offset of a tensor."""
        name = self.string(MAX_NAME, "a tensor's name")
        rank = self.number("I")
        if not 1 <= rank <= MAX_RANK:
            self.fail(f"tensor {shown(name)}: {rank:,} dimensions, allowed: 1 to {MAX_RANK}")
        shape = tuple(self.number("Q") for _ in range(rank))[::-1]
        if 0 in shape:
            self.fail(f"tensor {shown(name)}: shape {shown(shape)} holds no number")
        kind, offset = self.number("I"), self.number("Q")
        if kind not in TYPE_NAMES or TYPE_NAMES[kind] not in BLOCKS:
            given = TYPE_NAMES.get(kind, f"number {kind}")
            self.fail(f"tensor {shown(name)}: type {given} is not supported; there are: {', '.join(BLOCKS)}")
        return name, TYPE_NAMES[kind], shape, offset

    def alignment(self, metadata: dict[str, Any]) -> int:
        """The multiple of bytes at which every tensor begins."""
        value = metadata.get("general.alignment", ALIGNMENT)
        if type(value) is not int or not 8 <= value <= MAX_ALIGNMENT or value & (value - 1):
            self.fail(f"general.alignment {shown(value)}, allowed: powers of two from 8 to {MAX_ALIGNMENT:,}")
        return value

    def places(self, entries: list[tuple[str, str, tuple[int, ...], int]], alignment: int) -> dict[str, GgufEntry]:
        """The tensors by name, each within the file, at a multiple of the alignment, and none within another."""
        start = -(-self.at // alignment) * alignment
        found: dict[str, GgufEntry] = {}
        for name, kind, shape, offset in entries:
            block = BLOCKS[kind]
            numbers = 1
            for size in shape:
                numbers *= size
                if numbers > self.size * block.numbers:  # also keeps the product from growing without end
                    self.fail(f"tensor {shown(name)}: shape {shown(shape)}, more than the file's {self.size:,} bytes")
            if shape[-1] % block.numbers:
                self.fail(f"tensor {shown(name)}: rows of {shape[-1]:,}, not a multiple of {kind}'s {block.numbers}")
            begin = start + offset
            end = begin + numbers // block.numbers * block.bytes
            if offset % alignment or end > self.size:
                allowed = f"multiples of {alignment} that keep its {end - begin:,} bytes in the file"
                self.fail(f"tensor {shown(name)}: offset {offset:,}, allowed: {allowed} ({self.size:,} bytes)")
            if name in found:
                self.fail(f"tensor {shown(name)} is there twice")
            found[name] = GgufEntry(kind, shape, begin, end)
        last = start
        for name, entry in sorted(found.items(), key=lambda item: (item[1].begin, item[1].end)):
            if entry.begin < last:
                self.fail(f"tensor {shown(name)} overlaps the one before it")
            last = entry.end
        return found
