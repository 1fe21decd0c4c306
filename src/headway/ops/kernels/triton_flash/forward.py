"""FlashAttention forwards, in Triton: one program a tile of queries (FACTS §20)."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from headway.ops.kernels.triton_flash.tiles import (
    AHEAD,
    APART,
    EDGE,
    INSIDE,
    LN2,
    LOG2E,
    NUMBERS,
    allowed,
    biased,
    kept,
    places,
    put_rows,
    rows,
    stream,
    stretches,
)


@triton.jit
def _look(state, q, ks, vs, places_ptr, b, group, i, shift, begin, end, low, high, keys, scale, slope, offset,
          seed, chance, EP: tl.constexpr, WP: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr,
          HAS_HIGH: tl.constexpr, BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, KIND: tl.constexpr):  # fmt: skip
    """The forward pass over one stretch: the online softmax."""
    acc, total, most = state
    for n in range(begin, end, N):
        j = places(n, places_ptr, end, N, KIND)
        k = rows(ks, b, group, n, N, EP)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if KIND != INSIDE or BIAS != 0:
            scores = biased(scores * scale, i[:, None], (j - shift)[None, :], slope, offset - shift, BIAS)
            if KIND != INSIDE:
                seen = allowed(i[:, None], j[None, :], low, high, keys, HAS_LOW, HAS_HIGH, KIND)
                scores = tl.where(seen, scores, float("-inf"))
            now = tl.maximum(most, tl.max(scores, 1))
            base = now
            if KIND != INSIDE:  # a query that has seen nothing yet: -inf - -inf is no number
                base = tl.where(now == float("-inf"), 0.0, now)
            p = tl.exp2(scores - base[:, None])
        else:
            now = tl.maximum(most, tl.max(scores, 1) * scale)
            base = now
            p = tl.exp2(scores * scale - base[:, None])
        fade = tl.exp2(most - base)
        total = total * fade + tl.sum(p, 1)
        acc = acc * fade[:, None]
        if HAS_DROPOUT:
            p = tl.where(kept(i[:, None], j[None, :], seed, chance), p, 0.0)
        v = rows(vs, b, group, n, N, WP)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        most = now
    return acc, total, most


@triton.jit(do_not_specialize=NUMBERS)
def forward(qs, ks, vs, picked_ks, picked_vs, o_ptr, lse_ptr, slopes_ptr, lengths_ptr, places_ptr, seed_ptr,
            ob, oh, ot, H, GROUP, T, S, C, low, high, scale, natural, offset, chance,
            E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
            HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, HAS_LENGTHS: tl.constexpr, HAS_PLACES: tl.constexpr,
            PICKED: tl.constexpr, HAS_DROPOUT: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """A tile of queries against all keys it sees: the output, and the logarithm of the softmax's denominator."""
    tile = tl.program_id(0)
    if HAS_HIGH and not HAS_LOW:
        tile = tl.num_programs(0) - 1 - tile  # the longest rows first, so that none is left for the end
    head = tl.program_id(1) % H
    b = (tl.program_id(1) // H).to(tl.int64)
    first = tile * M
    i = first + tl.arange(0, M)
    keys = S
    if HAS_LENGTHS:
        keys = tl.minimum(tl.load(lengths_ptr + b).to(tl.int32), S)
    slope = 0.0
    if BIAS != 0:
        slope = tl.load(slopes_ptr + head).to(tl.float32) * LOG2E
    group = head // GROUP
    seed = stream(seed_ptr, tl.program_id(1), HAS_DROPOUT)
    row = tl.program_id(1) // H
    q = rows(qs, row, head, first, M, EP)
    state = (tl.zeros([M, WP], tl.float32), tl.zeros([M], tl.float32), tl.full([M], float("-inf"), tl.float32))
    start, whole, edge, end = stretches(first, M, N, low, high, keys, HAS_LOW, HAS_HIGH)
    if HAS_LOW:
        state = _look(state, q, ks, vs, None, row, group, i, first, start, whole, low, high, keys, scale, slope,
                      offset, seed, chance, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, EDGE)  # fmt: skip
    state = _look(state, q, ks, vs, None, row, group, i, first, whole, edge, low, high, keys, scale, slope,
                  offset, seed, chance, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, INSIDE)  # fmt: skip
    state = _look(state, q, ks, vs, None, row, group, i, first, edge, end, low, high, keys, scale, slope,
                  offset, seed, chance, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, EDGE)  # fmt: skip
    if HAS_PLACES:
        state = _look(state, q, picked_ks, picked_vs, places_ptr + b * C, row, group, i, first, 0, C, low, high, keys,
                      scale, slope, offset, seed, chance,
                      EP, WP, PICKED, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, APART)  # fmt: skip
    acc, total, most = state
    none = total == 0.0
    acc = acc / tl.where(none, 1.0, total * (1 - chance))[:, None]
    lse = (most + tl.log2(tl.where(none, 1.0, total))) * LN2
    if BIAS == AHEAD:
        lse -= slope * LN2 * (i + offset - first).to(tl.float32)
    put_rows(o_ptr + b * ob + head.to(tl.int64) * oh, i, ot, T, acc, W, WP)
    tl.store(lse_ptr + tl.program_id(1).to(tl.int64) * T + i, lse, mask=i < T)
