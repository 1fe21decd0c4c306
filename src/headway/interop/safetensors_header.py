"""Read the header of an untrusted safetensors file: every limit is checked before anything is allocated.

The file is eight bytes with the header's length, the header in JSON, then the tensors. The header is parsed entry by
entry, so that malicious nesting never becomes Python objects.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.documents import parse_json
from headway.errors import BadModelError, shown

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
MAX_HEADER_BYTES = 100_000_000  # of a header: the library's own limit
MAX_TENSORS = 100_000
MAX_RANK = 8
_KEY = re.compile(rb'\s*+"((?:[^"\\\x00-\x1f]|\\.){0,1024}+)"\s*+:\s*+')
_ENTRY = re.compile(rb'\{(?:[^{}"]|"[^"\\]{0,64}+"){0,1024}+\}')  # no nesting, bounded length
_STRING = rb'"(?:[^"\\]|\\.)*+"'
_METADATA = re.compile(rb"\{\s*+(?:%b\s*+:\s*+%b\s*+(?:,\s*+)?)*+\}" % (_STRING, _STRING), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a tensor is: the file, and its bytes from `begin` to `end` in it."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self.end - self.begin


def read_header(path: Path, name: str) -> dict[str, Entry]:
    """The tensors of a safetensors file by name, in file order; `name` is what errors and entries call it.

    Raises BadModelError naming the file, and the tensor if it is one's error.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(8)
        length = int.from_bytes(first, "little")
        if len(first) < 8 or length > size - 8:
            raise BadModelError(f"{name}: cut off ({size:,} bytes, the header alone has {length:,})")
        if length > MAX_HEADER_BYTES:
            raise BadModelError(f"{name}: a header of {length:,} bytes, allowed: {MAX_HEADER_BYTES:,}")
        header = file.read(length)
    if len(header) < length:
        raise BadModelError(f"{name}: cut off within its header")
    found: dict[str, Entry] = {}
    for tensor, value in _entries(header, name):
        if tensor in found:
            raise BadModelError(f"{name}: duplicate tensor {shown(tensor)}")
        found[tensor] = _entry(value, name, tensor, 8 + length, size)
    _expect_no_gaps(found, name, 8 + length, size)
    return found


def _entries(header: bytes, file: str) -> list[tuple[str, dict[str, Any]]]:
    """The header's entries by tensor name, without the metadata."""
    found: list[tuple[str, dict[str, Any]]] = []
    text = header.rstrip(b" ")
    last = len(text) - 1
    if last < 1 or text[:1] != b"{" or text[last:] != b"}":
        raise BadModelError(f"{file}: the header is not a JSON object")
    at = last if not text[1:last].strip() else 1
    while at < last:
        key = _KEY.match(text, at)
        if key is None:
            raise BadModelError(f"{file}: byte {at + 8} of the header: expected a tensor's name")
        tensor = parse_json(b'"' + key[1] + b'"', f"{file}, header", error=BadModelError)
        pattern = _METADATA if tensor == "__metadata__" else _ENTRY
        value = pattern.match(text, key.end(), last)
        if value is None:
            raise BadModelError(f"{file}: tensor {shown(tensor)}: expected dtype, shape and data_offsets")
        if pattern is _ENTRY:
            where = f"{file}, tensor {shown(tensor)}"
            found.append((tensor, parse_json(value[0], where, error=BadModelError)))
        if len(found) > MAX_TENSORS:
            raise BadModelError(f"{file}: more than {MAX_TENSORS:,} tensors")
        at = _after_comma(text, value.end(), last, file)
    return found


def _after_comma(text: bytes, at: int, last: int, file: str) -> int:
    """Where the next entry begins; `last` after the last one."""
    while at < last and text[at : at + 1].isspace():
        at += 1
    if at < last and text[at : at + 1] != b",":
        raise BadModelError(f"{file}: byte {at + 8} of the header: expected a comma")
    if at == last - 1:
        raise BadModelError(f"{file}: a comma ends the header")
    return min(at + 1, last)


def _entry(value: dict[str, Any], file: str, tensor: str, start: int, size: int) -> Entry:
    where = f"{file}, tensor {shown(tensor)}"
    if set(value) != {"dtype", "shape", "data_offsets"}:
        raise BadModelError(f"{where}: has {shown(sorted(value))}, expected dtype, shape, data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise BadModelError(f"{where}: dtype {shown(dtype)}, allowed: {', '.join(DTYPES)}")
    if not _sizes(shape) or len(shape) > MAX_RANK:
        raise BadModelError(f"{where}: shape {shown(shape)}, allowed: up to {MAX_RANK} whole numbers from 0")
    if not _sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size - start:
        raise BadModelError(f"{where}: data_offsets {shown(offsets)}, allowed: within the {size - start:,} bytes there")
    needs = math.prod(shape) * DTYPES[dtype].itemsize
    if needs != offsets[1] - offsets[0]:
        given = f"{shown(shape)} of {dtype} is {needs:,} bytes"
        raise BadModelError(f"{where}: {given}, data_offsets give {offsets[1] - offsets[0]:,}")
    return Entry(file, dtype, tuple(shape), start + offsets[0], start + offsets[1])


def _sizes(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _expect_no_gaps(found: dict[str, Entry], file: str, start: int, size: int) -> None:
    """Raise BadModelError unless each byte after the header belongs to exactly one tensor."""
    at = start
    for tensor, entry in sorted(found.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            how = (
                "overlaps the one before it" if entry.begin < at else f"begins after {entry.begin - at:,} unused bytes"
            )
            raise BadModelError(f"{file}: tensor {shown(tensor)} {how}")
        at = entry.end
    if at != size:
        raise BadModelError(f"{file}: {size - at:,} unused bytes at the end")
