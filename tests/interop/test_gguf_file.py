"""GGUF files: what is read of sound ones, and that damaged or hostile ones end in one line."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.errors import BadModelError
from headway.interop.gguf_file import MAX_KEYS, MAX_NAME, MAX_TENSORS, read_gguf
from headway.limits import LIMITS, raised
from tests.interop.gguf_files import gguf_bytes, stored, text, write_gguf

METADATA: dict[str, Any] = {
    "general.architecture": "llama", "a.int": 7, "a.float": 0.5, "a.flag": True, "a.words": ["x", "é", ""],
    "a.numbers": [1, -2, 3], "a.floats": [0.25, 1.5], "a.bytes": b"\0\xff",
}  # fmt: skip


def tensors() -> dict[str, Any]:
    drawn = torch.Generator().manual_seed(0)
    wide = torch.randn(3, 64, generator=drawn)
    return {"one": stored(torch.arange(5.0)), "half": stored(wide, "F16"), "q": stored(wide, "Q8_0")}


def damaged(path: Path, data: bytes) -> str:
    """The one line with which a file is refused."""
    path.write_bytes(data)
    with pytest.raises(BadModelError) as caught:
        read_gguf(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [32, 8, 4096])
def test_metadata_and_tensors_are_read(tmp_path, version, alignment):
    metadata = {**METADATA, "general.alignment": alignment}
    file = read_gguf(write_gguf(tmp_path / "x.gguf", metadata, tensors(), version=version, alignment=alignment))
    found = {key: value.tobytes() if key == "a.bytes" else value for key, value in file.metadata.items()}
    found |= {key: list(found[key]) for key in ("a.numbers", "a.floats")}
    assert found == metadata
    assert [entry.shape for entry in file.tensors.values()] == [(5,), (3, 64), (3, 64)]
    assert file.read("one").tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert file.read("half").dtype == torch.float16
    assert file.read("q").dtype == torch.float32
    torch.testing.assert_close(file.read("q"), file.read("half").float(), atol=0.02, rtol=0)


def test_a_file_cut_anywhere_is_one_line(tmp_path):
    whole = gguf_bytes(METADATA, tensors())
    for end in [*range(0, 400, 3), *range(400, len(whole) - 32, 31)]:  # the last bytes may be padding
        assert "x.gguf" in damaged(tmp_path / "x.gguf", whole[:end])


def test_a_file_cut_after_it_was_opened(tmp_path):
    file = read_gguf(write_gguf(tmp_path / "x.gguf", METADATA, tensors()))
    os.truncate(file.path, file.tensors["q"].begin + 1)
    with pytest.raises(BadModelError, match="ends within tensor 'q'"):
        file.read("q")


def header(tensor_count: int = 0, keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensor_count, keys)


HUGE = 2**63
HOSTILE = {
    "nothing": (b"", "not a GGUF file"),
    "another format": (b"PK\3\4" + bytes(64), "not a GGUF file"),
    "version 1": (header(version=1), "GGUF version 1, allowed: 2, 3"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version 3 in big-endian order"),
    "too many tensors": (header(HUGE), f"allowed: up to {MAX_TENSORS:,}"),
    "too many keys": (header(0, HUGE), f"allowed: up to {MAX_KEYS:,}"),
    "more tensors than bytes": (header(99_999), "truncated"),
    "a long key": (header(0, 1) + struct.pack("<Q", HUGE), f"allowed: up to {MAX_NAME:,}"),
    "a key that goes on": (header(0, 1) + struct.pack("<Q", 1000), "truncated"),
    "a long string": (header(0, 1) + text("k") + struct.pack("<IQ", 8, 2**62), "bytes in the value of 'k'"),
    "an unknown type": (header(0, 1) + text("k") + struct.pack("<I", 13), "value type 13"),
    "an array of arrays": (header(0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1), "an array of type 9"),
    "a long array": (
        header(0, 1) + text("k") + struct.pack("<IIQ", 9, 0, HUGE),
        f"values in 'k', allowed: up to {LIMITS['vocabulary'].value:,}",
    ),
    "an array that goes on": (header(0, 1) + text("k") + struct.pack("<IIQ", 9, 12, 4_000_000), "truncated"),
    "a key twice": (header(0, 2) + 2 * (text("k") + struct.pack("<IB", 0, 1)), "'k' is there twice"),
    "alignment 3": (header(0, 1) + text("general.alignment") + struct.pack("<II", 4, 3), "general.alignment 3"),
    "alignment 0": (header(0, 1) + text("general.alignment") + struct.pack("<II", 4, 0), "general.alignment 0"),
    "alignment of text": (header(0, 1) + text("general.alignment") + struct.pack("<I", 8) + text("x"), "'x'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers(tmp_path, case):
    data, message = HOSTILE[case]
    assert message in damaged(tmp_path / "x.gguf", data)


def entry(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", kind, offset)


ENTRIES = {
    "five dimensions": ([entry("t", (1, 1, 1, 1, 1), 0, 0)], "5 dimensions, allowed: 1 to 4"),
    "a billion dimensions": ([text("t") + struct.pack("<I", 2**32 - 1)], "4,294,967,295 dimensions"),
    "no dimension": ([entry("t", (), 0, 0)], "0 dimensions"),
    "an empty tensor": ([entry("t", (0, 2**63), 0, 0)], "holds no number"),
    "a huge shape": ([entry("t", (2**63, 2**63, 2**63, 2**63), 0, 0)], "more than the file's"),
    "more than the file": ([entry("t", (64,), 0, 0)], "keep its 256 bytes in the file"),
    "an odd offset": ([entry("t", (4,), 0, 4)], "offset 4, allowed: multiples of 32"),
    "a negative offset": ([entry("t", (4,), 0, 2**64 - 32)], "offset 18,446,744,073,709,551,584"),
    "rows that are no blocks": ([entry("t", (16,), 2, 0)], "rows of 16, not a multiple of Q4_0's 32"),
    "overlapping": ([entry("t", (8,), 0, 0), entry("u", (9,), 0, 32), entry("v", (1,), 0, 64)], "'v' overlaps"),
    "the same place": ([entry("t", (8,), 0, 0), entry("u", (8,), 0, 0)], "'u' overlaps"),
    "twice": ([entry("t", (8,), 0, 0), entry("t", (8,), 0, 32)], "'t' is there twice"),
    "an unsupported format": ([entry("t", (256,), 16, 0)], "type IQ2_XXS is not supported; there are: F32, F16"),
    "integers": ([entry("t", (8,), 26, 0)], "type I32 is not supported"),
    "an unknown format": ([entry("t", (8,), 99, 0)], "type number 99 is not supported"),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_hostile_tensors(tmp_path, case):
    entries, message = ENTRIES[case]
    head = header(len(entries)) + b"".join(entries)
    assert message in damaged(tmp_path / "x.gguf", head + bytes(-len(head) % 32) + bytes(128))


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(BadModelError, match="not a regular file"):
        read_gguf(tmp_path / "pipe.gguf")
    with pytest.raises(BadModelError, match="not a regular file"):
        read_gguf(tmp_path)
    with pytest.raises(BadModelError, match="missing or unreadable"):
        read_gguf(tmp_path / "none.gguf")


def test_the_length_of_an_array_is_a_limit_that_can_be_raised(tmp_path):
    path = write_gguf(tmp_path / "x.gguf", {"k": [1] * 20}, {})
    with raised({"vocabulary": 10}), pytest.raises(BadModelError, match="20 values in 'k', allowed: up to 10"):
        read_gguf(path)
    with raised({"vocabulary": 20}):
        assert len(read_gguf(path).metadata["k"]) == 20
