"""Every number format of GGUF, bit by bit as ggml's reference (the `gguf` package) dequantises it.

gguf_blocks.json was made with gguf 0.19.0 by `python -m tests.interop.test_gguf_blocks`: of each format the SHA-256 of
500 dequantised random blocks and the first numbers. Where the package is installed it is also asked directly.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headway.interop.gguf_blocks import BLOCKS, CHUNK, PLAIN, TYPE_NAMES, dequantise

GOLDEN = Path(__file__).with_name("gguf_blocks.json")
QUANTISED = [name for name in BLOCKS if name not in PLAIN]
# The bytes of a block where the upper half of a float16 lies.
SCALES = {
    "Q4_0": (1,), "Q4_1": (1, 3), "Q5_0": (1,), "Q5_1": (1, 3), "Q8_0": (1,), "Q2_K": (81, 83), "Q3_K": (109,),
    "Q4_K": (1, 3), "Q5_K": (1, 3), "Q6_K": (209,),
}  # fmt: skip


def random_blocks(kind: str, count: int, seed: int = 0) -> bytes:
    """Random bits, with scales of any sign and size below 2: an exponent of all ones would be infinite or NaN."""
    data = bytearray(random.Random(f"{kind} {seed}").randbytes(count * BLOCKS[kind].bytes))
    for at in SCALES[kind]:
        for first in range(0, len(data), BLOCKS[kind].bytes):
            data[first + at] &= 0xBF
    return bytes(data)


def dequantised(kind: str, data: bytes) -> Tensor:
    return dequantise(torch.frombuffer(bytearray(data), dtype=torch.uint8), kind)


def digest(numbers: Tensor) -> dict[str, object]:
    """Of the bits of all numbers, and the first of them."""
    return {"sha256": hashlib.sha256(numbers.numpy().tobytes()).hexdigest(), "first": numbers[:8].tolist()}


@pytest.mark.parametrize("kind", QUANTISED)
def test_numbers_are_those_of_the_reference(kind):
    numbers = dequantised(kind, random_blocks(kind, 500))
    assert numbers.dtype == torch.float32
    assert digest(numbers) == json.loads(GOLDEN.read_text())[kind]


@pytest.mark.parametrize("kind", QUANTISED)
def test_numbers_are_those_of_the_package(kind):
    gguf = pytest.importorskip("gguf")
    import numpy as np

    data = random_blocks(kind, 300, seed=1)
    theirs = gguf.dequantize(np.frombuffer(data, np.uint8).reshape(300, -1), gguf.GGMLQuantizationType[kind])
    assert dequantised(kind, data).numpy().tobytes() == theirs.astype(np.float32).tobytes()


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K"])
def test_chunks_are_joined_without_a_seam(kind):
    count = CHUNK // BLOCKS[kind].bytes + 3
    data = random_blocks(kind, count)
    last = dequantised(kind, data[-5 * BLOCKS[kind].bytes :])
    assert torch.equal(dequantised(kind, data)[-len(last) :], last)


@pytest.mark.parametrize("kind", PLAIN)
def test_floats_stay_what_they_are_at_any_address(kind):
    values = torch.randn(40).to(PLAIN[kind])
    data = b"x" + values.view(torch.uint8).numpy().tobytes()
    whole = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    assert torch.equal(dequantise(whole[1:], kind), values)


def test_every_format_has_the_size_ggml_gives_it():
    gguf = pytest.importorskip("gguf")
    for number, name in TYPE_NAMES.items():
        kind = gguf.GGMLQuantizationType(number)
        assert kind.name == name
        if name in BLOCKS:
            assert gguf.GGML_QUANT_SIZES[kind] == (BLOCKS[name].numbers, BLOCKS[name].bytes)


def main() -> None:
    """Write the golden file with the `gguf` package."""
    import gguf
    import numpy as np

    found = {}
    for kind in QUANTISED:
        data = np.frombuffer(random_blocks(kind, 500), np.uint8).reshape(500, -1)
        numbers = gguf.dequantize(data, gguf.GGMLQuantizationType[kind]).astype(np.float32)
        found[kind] = digest(torch.from_numpy(numbers).flatten())
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
