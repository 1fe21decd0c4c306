"""What the Triton kernels of FlashAttention share: tiles of tokens, the band that is seen, ALiBi.

Keys that query i sees form a band, i + low ≤ j ≤ i + high, cut off at the row's length. A program walks the band in
three stretches: tiles that the band's lower edge cuts, tiles wholly inside, which need no mask, and tiles that the
upper edge or the end of the keys cuts. Powers are of two: the scale that comes in is multiplied by log₂e. Letters: M
queries and N keys of a tile, EP and WP the widths E and W filled up to a power of two.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
AHEAD = tl.constexpr(1)  # ALiBi where no key lies after its query: |i - j| = i - j
BOTH = tl.constexpr(2)  # ALiBi on both sides
NUMBERS = ["H", "G", "T", "S", "C", "low", "high", "offset"]  # whose values make no other code
INSIDE = tl.constexpr(0)  # a tile that no edge of the band cuts,
EDGE = tl.constexpr(1)  # one that may be cut,
APART = tl.constexpr(2)  # and keys that are seen from everywhere, picked out of the text


@triton.jit
def rows(source, b, head, first, COUNT: tl.constexpr, PADDED: tl.constexpr):
    """Tokens `first` onwards of a batch row and head: (COUNT, PADDED), zeros beyond the edges."""
    return source.load([b, head, first, 0]).reshape([COUNT, PADDED])


@triton.jit
def rows_at(pointer, index, stride, limit, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Rows `index` of a matrix whose rows are `stride` apart, as `put_rows` writes them."""
    column = tl.arange(0, PADDED)
    inside = (index[:, None] < limit) & (column[None, :] < WIDTH)
    return tl.load(pointer + index[:, None] * stride + column[None, :], mask=inside, other=0.0)


@triton.jit
def put_rows(pointer, index, stride, limit, value, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Write rows `index`, as `rows_at` reads them."""
    column = tl.arange(0, PADDED)
    where = pointer + index[:, None] * stride + column[None, :]
    inside = (index[:, None] < limit) & (column[None, :] < WIDTH)
    tl.store(where, value.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def places(first, places_ptr, count, SIZE: tl.constexpr, KIND: tl.constexpr):
    """Where the keys of a tile stand in the text; -1 for what fills up a tile of picked ones."""
    j = first + tl.arange(0, SIZE)
    if KIND == APART:
        return tl.load(places_ptr + j, mask=j < count, other=-1)
    else:
        return j


@triton.jit
def allowed(i, j, low, high, keys, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, KIND: tl.constexpr):
    """May query i look at key j? A key APART counts only outside the band: inside it was met already."""
    inside = j < keys
    if HAS_LOW:
        inside = inside & (j >= i + low)
    if HAS_HIGH:
        inside = inside & (j <= i + high)
    if KIND == APART:
        return (j >= 0) & (j < keys) & ~inside
    else:
        return inside


@triton.jit
def biased(scores, i, j, slope, offset, BIAS: tl.constexpr):
    """Scores plus ALiBi, less what is the same for a whole query (who folds that into the denominator)."""
    if BIAS == AHEAD:
        return scores + slope * j.to(tl.float32)
    elif BIAS == BOTH:
        return scores - slope * tl.abs((i + offset - j).to(tl.float32))
    else:
        return scores


@triton.jit
def stretches(first, SIZE: tl.constexpr, STEP: tl.constexpr, low, high, end, HAS_LOW: tl.constexpr,
               HAS_HIGH: tl.constexpr):  # fmt: skip
    """Where a tile of SIZE tokens from `first` starts to look, where the whole tiles begin and end, and the end.

    Token x sees x + low … x + high, and nothing from `end` on. Steps are STEP long, from a multiple of it.
    """
    start, whole, edge = 0, 0, end
    if HAS_LOW:
        start = tl.maximum(first + low, 0) // STEP * STEP
        whole = (tl.maximum(first + SIZE - 1 + low, 0) + STEP - 1) // STEP * STEP
    if HAS_HIGH:
        edge = tl.minimum(end, first + high + 1)
        end = tl.minimum(end, first + SIZE + high)
    start = tl.minimum(start, tl.maximum(end, 0))
    whole = tl.minimum(tl.maximum(whole, start), tl.maximum(end, start))
    edge = tl.maximum(tl.maximum(edge, 0) // STEP * STEP, whole)
    return start, whole, edge, end


@triton.jit
def _mixed(x):
    """Bits stirred, so that numbers that differ anywhere differ everywhere."""
    x = (x ^ (x >> 16)) * 0x45D9F3B
    x = (x ^ (x >> 16)) * 0x45D9F3B
    return x ^ (x >> 16)


@triton.jit
def kept(i, j, seed, chance):
    """Does the weight of query i and key j survive dropout? The same answer forwards and backwards."""
    x = _mixed(_mixed(i.to(tl.uint32) + seed) ^ (j.to(tl.uint32) * 0x27D4EB2F))
    return (x >> 8).to(tl.float32) * (1.0 / 16777216) >= chance


@triton.jit
def stream(seed_ptr, line, HAS_DROPOUT: tl.constexpr):
    """The seed of one batch row and head."""
    if HAS_DROPOUT:
        return _mixed(tl.load(seed_ptr).to(tl.uint32) + line.to(tl.uint32) * 0x1B873593)
    else:
        return 0
