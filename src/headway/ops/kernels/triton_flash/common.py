"""What the Triton kernels of FlashAttention share: loading tiles, the ranges of a band, ALiBi, dropout.

The keys of query i form a band, i + low ≤ j ≤ i + high, cut off at the row's length. A program walks the band in three
ranges: tiles cut by the lower edge of the band, tiles entirely inside, which need no mask, and tiles cut by the upper
edge or the end of the keys. Exponentials are computed as powers of two (`exp2` is one instruction): with the scale
multiplied by log₂e, e^(scale·q·k) = 2^(scale_log2·q·k). Letters: M queries and N keys of a tile; EP and WP are the
widths E and W rounded up to a power of two.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
CAUSAL_ALIBI = tl.constexpr(1)  # no key after its query: |i - j| = i - j
SYMMETRIC_ALIBI = tl.constexpr(2)  # keys on both sides
UNSPECIALISED = ["H", "G", "T", "S", "C", "low", "high", "offset"]  # no recompilation for particular values of these
# Kinds of tile:
FULL = tl.constexpr(0)  # entirely inside the band
PARTIAL = tl.constexpr(1)  # possibly cut by an edge of the band
GLOBAL = tl.constexpr(2)  # global keys, gathered from the sequence


@triton.jit
def load_tile(source, b, head, first, COUNT: tl.constexpr, PADDED: tl.constexpr):
    """COUNT tokens from `first` on of a batch row and head: (COUNT, PADDED), zeros out of bounds."""
    return source.load([b, head, first, 0]).reshape([COUNT, PADDED])


@triton.jit
def load_rows(pointer, index, stride, limit, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Load rows `index` of a matrix whose rows are `stride` apart, without a tensor descriptor."""
    column = tl.arange(0, PADDED)
    inside = (index[:, None] < limit) & (column[None, :] < WIDTH)
    return tl.load(pointer + index[:, None] * stride + column[None, :], mask=inside, other=0.0)


@triton.jit
def store_rows(pointer, index, stride, limit, value, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Store rows `index` of a matrix whose rows are `stride` apart."""
    column = tl.arange(0, PADDED)
    where = pointer + index[:, None] * stride + column[None, :]
    inside = (index[:, None] < limit) & (column[None, :] < WIDTH)
    tl.store(where, value.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def key_positions(first, global_positions_ptr, count, SIZE: tl.constexpr, KIND: tl.constexpr):
    """The positions of a tile's keys in the sequence; -1 for the padding of a tile of global keys."""
    j = first + tl.arange(0, SIZE)
    if KIND == GLOBAL:
        return tl.load(global_positions_ptr + j, mask=j < count, other=-1)
    else:
        return j


@triton.jit
def allowed(i, j, low, high, keys, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, KIND: tl.constexpr):
    """Whether query i attends to key j. A GLOBAL key counts only outside the band: inside, it was visited already."""
    inside = j < keys
    if HAS_LOW:
        inside = inside & (j >= i + low)
    if HAS_HIGH:
        inside = inside & (j <= i + high)
    if KIND == GLOBAL:
        return (j >= 0) & (j < keys) & ~inside
    else:
        return inside


@triton.jit
def add_alibi(scores, i, j, slope, offset, BIAS: tl.constexpr):
    """Scores plus ALiBi, in powers of two (`slope` includes log₂e).

    Causal ALiBi is -slope·(i + offset - j); the term of i is constant along a row of the softmax, so only slope·j is
    added here and the rest is accounted for in the log of the denominator.
    """
    if BIAS == CAUSAL_ALIBI:
        return scores + slope * j.to(tl.float32)
    elif BIAS == SYMMETRIC_ALIBI:
        return scores - slope * tl.abs((i + offset - j).to(tl.float32))
    else:
        return scores


@triton.jit
def band_ranges(first, SIZE: tl.constexpr, STEP: tl.constexpr, low, high, end, HAS_LOW: tl.constexpr,
               HAS_HIGH: tl.constexpr):  # fmt: skip
    """The start of the band of a tile of SIZE tokens from `first`, the start and end of its full tiles, and its end.

    Token x attends to x + low … x + high, and to nothing from `end` on. The returned bounds, except the last, are
    multiples of STEP, the size of the tiles visited.
    """
    start, full_start, full_end = 0, 0, end
    if HAS_LOW:
        start = tl.maximum(first + low, 0) // STEP * STEP
        full_start = (tl.maximum(first + SIZE - 1 + low, 0) + STEP - 1) // STEP * STEP
    if HAS_HIGH:
        full_end = tl.minimum(end, first + high + 1)
        end = tl.minimum(end, first + SIZE + high)
    start = tl.minimum(start, tl.maximum(end, 0))
    full_start = tl.minimum(tl.maximum(full_start, start), tl.maximum(end, start))
    full_end = tl.maximum(tl.maximum(full_end, 0) // STEP * STEP, full_start)
    return start, full_start, full_end, end


@triton.jit
def _hash(x):
    """A 32-bit integer hash (multiply and xorshift): every input bit affects every output bit."""
    x = (x ^ (x >> 16)) * 0x45D9F3B
    x = (x ^ (x >> 16)) * 0x45D9F3B
    return x ^ (x >> 16)


@triton.jit
def keep_mask(i, j, seed, dropout):
    """Whether dropout keeps the weight of query i and key j: a hash of (i, j, seed), equal in both passes."""
    x = _hash(_hash(i.to(tl.uint32) + seed) ^ (j.to(tl.uint32) * 0x27D4EB2F))
    return (x >> 8).to(tl.float32) * (1.0 / 16777216) >= dropout


@triton.jit
def head_seed(seed_ptr, head_index, HAS_DROPOUT: tl.constexpr):
    """The dropout seed of one batch row and head."""
    if HAS_DROPOUT:
        return _hash(tl.load(seed_ptr).to(tl.uint32) + head_index.to(tl.uint32) * 0x1B873593)
    else:
        return 0
