"""The number formats of GGUF tensors, and how each becomes floats.

A row is a sequence of blocks. A block holds small integers q with a scale d, and in some formats an offset m, as
float16: x = d·q, or x = d·q + m. The K formats have blocks of 256 with a scale (and an offset) of 4 to 8 bits for each
16 or 32 numbers, themselves scaled by one float16. Every formula is computed in float32 in the order of operations of
ggml's reference, so that the results are the same bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 2**20  # bytes dequantised at once: the integers of a chunk take several times its size
TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How many numbers a block holds, in how many bytes, and its formula: (N, bytes) uint8 -> (N, numbers) float32."""

    numbers: int
    bytes: int
    values: Callable[[Tensor], Tensor]


def dequantise(data: Tensor, kind: str) -> Tensor:
    """The numbers of whole blocks, given as a vector of bytes: float32, or what the file has of 16 bits."""
    if kind in PLAIN:
        dtype = PLAIN[kind]
        aligned = data.data_ptr() % dtype.itemsize == 0
        return (data if aligned else data.clone()).view(dtype)
    block = BLOCKS[kind]
    blocks = data.view(-1, block.bytes)
    result = torch.empty(len(blocks), block.numbers)
    step = CHUNK // block.bytes
    for first in range(0, len(blocks), step):
        result[first : first + step] = block.values(blocks[first : first + step])
    return result.flatten()


def _half(blocks: Tensor, at: int) -> Tensor:
    """The float16 at a byte of each block: (N, 1) float32."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """(…, K) bytes -> (…, 2, K): the low four bits of each, then the high ones."""
    return torch.stack([packed & 15, packed >> 4], dim=-2)


def _bits(packed: Tensor, width: int, count: int) -> Tensor:
    """(…, K) bytes -> (…, count, K): fields of `width` bits, the lowest first."""
    shifts = torch.arange(0, width * count, width, dtype=torch.uint8)
    fields: Tensor = (packed.unsqueeze(-2) >> shifts.unsqueeze(-1)) & (2**width - 1)
    return fields


def _signed(packed: Tensor) -> Tensor:
    return packed.contiguous().view(torch.int8).float()


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).flatten(1).float() - 8)


def _q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).flatten(1).float() + _half(blocks, 2)


def _five(high: Tensor, low: Tensor) -> Tensor:
    """32 numbers of five bits: the fifth is a bit of `high`, four bytes of a bit each."""
    fifth = _bits(high, 1, 8).mT.flatten(1)  # byte by byte, in each the lowest bit first
    return (_nibbles(low).flatten(1) | fifth << 4).float()


def _q5_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_five(blocks[:, 2:6], blocks[:, 6:]) - 16)


def _q5_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _five(blocks[:, 4:8], blocks[:, 8:]) + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _signed(blocks[:, 2:])


def _q2_k(blocks: Tensor) -> Tensor:
    """16 bytes of scale and offset (four bits each), 64 bytes of numbers of two bits, d, m."""
    packed = blocks[:, :16]
    scale, offset = _half(blocks, 80) * (packed & 15).float(), _half(blocks, 82) * (packed >> 4).float()
    numbers: Tensor = _bits(blocks[:, 16:80].unflatten(1, (2, 32)), 2, 4).flatten(1).unflatten(1, (16, 16)).float()
    return (scale.unsqueeze(-1) * numbers - offset.unsqueeze(-1)).flatten(1)


def _q3_k(blocks: Tensor) -> Tensor:
    """32 bytes of high bits, 64 of two low bits, 12 of scales of six bits, d. A high bit of 0 subtracts 4."""
    high = _bits(blocks[:, :32].unsqueeze(1), 1, 8).flatten(1)
    low = _bits(blocks[:, 32:96].unflatten(1, (2, 32)), 2, 4).flatten(1)
    numbers: Tensor = (low.to(torch.int8) - ((high ^ 1) << 2).to(torch.int8)).unflatten(1, (16, 16)).float()
    packed = blocks[:, 96:108]
    # Four bits of each scale in eight bytes, its upper two in the other four.
    scales = _nibbles(packed[:, :8]).flatten(1) | _bits(packed[:, 8:], 2, 4).flatten(1) << 4
    scale = _half(blocks, 108) * (scales.to(torch.int8) - 32).float()
    return (scale.unsqueeze(-1) * numbers).flatten(1)


def _scales_and_offsets(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """The eight scales and offsets of six bits of Q4_K and Q5_K, each times its float16: (N, 8, 1) twice."""
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat([first & 63, third & 15 | (first >> 6) << 4], dim=1)
    offsets = torch.cat([second & 63, third >> 4 | (second >> 6) << 4], dim=1)
    return (_half(blocks, 0) * scales.float()).unsqueeze(-1), (_half(blocks, 2) * offsets.float()).unsqueeze(-1)


def _q4_k(blocks: Tensor) -> Tensor:
    """d, m, 12 bytes of scales and offsets, 128 bytes of numbers: 32 low halves, then their 32 high ones."""
    scale, offset = _scales_and_offsets(blocks)
    numbers = _nibbles(blocks[:, 16:].unflatten(1, (4, 32))).flatten(1, 2).float()
    return (scale * numbers - offset).flatten(1)


def _q5_k(blocks: Tensor) -> Tensor:
    """As Q4_K, with 32 bytes of fifth bits before the numbers."""
    scale, offset = _scales_and_offsets(blocks)
    fifth = _bits(blocks[:, 16:48], 1, 8)
    numbers = (_nibbles(blocks[:, 48:].unflatten(1, (4, 32))).flatten(1, 2) | fifth << 4).float()
    return (scale * numbers - offset).flatten(1)


def _q6_k(blocks: Tensor) -> Tensor:
    """128 bytes of low halves, 64 of two high bits, 16 scales of eight bits with sign, d."""
    low = _nibbles(blocks[:, :128].unflatten(1, (2, 64))).flatten(1)
    high = _bits(blocks[:, 128:192].unflatten(1, (2, 32)), 2, 4).flatten(1)
    numbers: Tensor = ((low | high << 4).to(torch.int8) - 32).unflatten(1, (16, 16)).float()
    scale = _half(blocks, 208) * _signed(blocks[:, 192:208])
    return (scale.unsqueeze(-1) * numbers).flatten(1)


def _plain(blocks: Tensor) -> Tensor:
    raise NotImplementedError("floats are viewed, not computed")


PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
BLOCKS = {
    **{name: NumberFormat(1, dtype.itemsize, _plain) for name, dtype in PLAIN.items()},
    "Q4_0": NumberFormat(32, 18, _q4_0),
    "Q4_1": NumberFormat(32, 20, _q4_1),
    "Q5_0": NumberFormat(32, 22, _q5_0),
    "Q5_1": NumberFormat(32, 24, _q5_1),
    "Q8_0": NumberFormat(32, 34, _q8_0),
    "Q2_K": NumberFormat(256, 84, _q2_k),
    "Q3_K": NumberFormat(256, 110, _q3_k),
    "Q4_K": NumberFormat(256, 144, _q4_k),
    "Q5_K": NumberFormat(256, 176, _q5_k),
    "Q6_K": NumberFormat(256, 210, _q6_k),
}
