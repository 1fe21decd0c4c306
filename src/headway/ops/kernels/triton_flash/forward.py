"""The forward pass of FlashAttention in Triton, one program per tile of queries (Dao et al. 2023, algorithm 1).

The derivation is in `kernels/flash_torch.py`. Here m and L are in powers of two until the end: 2^x with x = S·log₂e.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from headway.ops.kernels.triton_flash.common import (
    CAUSAL_ALIBI,
    FULL,
    GLOBAL,
    LN2,
    LOG2E,
    PARTIAL,
    UNSPECIALISED,
    add_alibi,
    allowed,
    band_ranges,
    head_seed,
    keep_mask,
    key_positions,
    load_tile,
    store_rows,
)


@triton.jit
def _accumulate(state, q, ks, vs, global_positions_ptr, b, group, i, shift, begin, end, low, high, keys, scale_log2,
                slope, offset, seed, dropout, EP: tl.constexpr, WP: tl.constexpr, N: tl.constexpr,
                HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr,
                KIND: tl.constexpr):  # fmt: skip
    """The online softmax over one range of keys: the state is O, l and m of a tile of queries.

    Positions are counted from `shift`, the first query of the tile, so that ALiBi's terms stay small in float32.
    """
    acc, row_sum, row_max = state
    for n in range(begin, end, N):
        j = key_positions(n, global_positions_ptr, end, N, KIND)
        k = load_tile(ks, b, group, n, N, EP)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if KIND != FULL or BIAS != 0:
            scores = add_alibi(scores * scale_log2, i[:, None], (j - shift)[None, :], slope, offset - shift, BIAS)
            if KIND != FULL:
                seen = allowed(i[:, None], j[None, :], low, high, keys, HAS_LOW, HAS_HIGH, KIND)
                scores = tl.where(seen, scores, float("-inf"))
            new_max = tl.maximum(row_max, tl.max(scores, 1))
            base = new_max
            if KIND != FULL:  # no allowed key so far: -inf - -inf would be NaN
                base = tl.where(new_max == float("-inf"), 0.0, new_max)
            p = tl.exp2(scores - base[:, None])
        else:  # the scale is applied inside exp2's argument, where it is one FMA with the subtraction
            new_max = tl.maximum(row_max, tl.max(scores, 1) * scale_log2)
            base = new_max
            p = tl.exp2(scores * scale_log2 - base[:, None])
        rescale = tl.exp2(row_max - base)
        row_sum = row_sum * rescale + tl.sum(p, 1)
        acc = acc * rescale[:, None]
        if HAS_DROPOUT:  # after the sum: dropout acts on normalised weights
            p = tl.where(keep_mask(i[:, None], j[None, :], seed, dropout), p, 0.0)
        v = load_tile(vs, b, group, n, N, WP)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        row_max = new_max
    return acc, row_sum, row_max


@triton.jit(do_not_specialize=UNSPECIALISED)
def forward(qs, ks, vs, global_ks, global_vs, o_ptr, lse_ptr, slopes_ptr, lengths_ptr, global_positions_ptr, seed_ptr,
            ob, oh, ot, H, GROUP, T, S, C, low, high, scale_log2, scale, offset, dropout,
            E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
            HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, HAS_LENGTHS: tl.constexpr, HAS_GLOBALS: tl.constexpr,
            GLOBALS_PER_TILE: tl.constexpr, HAS_DROPOUT: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """A tile of queries against all its keys: the output O/l, and L = m + ln l."""
    tile = tl.program_id(0)
    if HAS_HIGH and not HAS_LOW:
        tile = tl.num_programs(0) - 1 - tile  # causal: start the longest rows first, for an even load at the end
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
    seed = head_seed(seed_ptr, tl.program_id(1), HAS_DROPOUT)
    row = tl.program_id(1) // H
    q = load_tile(qs, row, head, first, M, EP)
    state = (tl.zeros([M, WP], tl.float32), tl.zeros([M], tl.float32), tl.full([M], float("-inf"), tl.float32))
    start, full_start, full_end, end = band_ranges(first, M, N, low, high, keys, HAS_LOW, HAS_HIGH)
    if HAS_LOW:
        state = _accumulate(state, q, ks, vs, None, row, group, i, first, start, full_start, low, high, keys,
                            scale_log2, slope, offset, seed, dropout,
                            EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, PARTIAL)  # fmt: skip
    state = _accumulate(state, q, ks, vs, None, row, group, i, first, full_start, full_end, low, high, keys,
                        scale_log2, slope, offset, seed, dropout,
                        EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, FULL)  # fmt: skip
    state = _accumulate(state, q, ks, vs, None, row, group, i, first, full_end, end, low, high, keys,
                        scale_log2, slope, offset, seed, dropout,
                        EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, PARTIAL)  # fmt: skip
    if HAS_GLOBALS:
        state = _accumulate(state, q, global_ks, global_vs, global_positions_ptr + b * C, row, group, i, first, 0, C,
                            low, high, keys, scale_log2, slope, offset, seed, dropout,
                            EP, WP, GLOBALS_PER_TILE, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, GLOBAL)  # fmt: skip
    acc, row_sum, row_max = state
    empty = row_sum == 0.0  # no allowed key: O = 0 and L = -inf
    acc = acc / tl.where(empty, 1.0, row_sum * (1 - dropout))[:, None]
    lse = (row_max + tl.log2(tl.where(empty, 1.0, row_sum))) * LN2
    if BIAS == CAUSAL_ALIBI:  # the term of the query that `add_alibi` left out
        lse -= slope * LN2 * (i + offset - first).to(tl.float32)
    store_rows(o_ptr + b * ob + head.to(tl.int64) * oh, i, ot, T, acc, W, WP)
    tl.store(lse_ptr + tl.program_id(1).to(tl.int64) * T + i, lse, mask=i < T)
