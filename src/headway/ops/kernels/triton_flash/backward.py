"""The backward pass of FlashAttention in Triton: one kernel for dQ, one for dK and dV, one for global keys.

Dao et al. 2022, appendix B.2 and algorithm 4; the names of the quantities are

    S  = scale·Q·Kᵀ + bias        recomputed, tile by tile
    P  = exp(S - L)               the weights; L is the saved log of the softmax's denominator
    dV = Pᵀ·dO
    dP = dO·Vᵀ
    D  = rowsum(dO ∘ O)           one number per query, equal to rowsum(P ∘ dP)
    dS = P ∘ (dP - D)             the gradient of the softmax; with a gradient dL of L, D - dL stands for D
    dQ = scale·dS·K
    dK = scale·dSᵀ·Q

With dropout, O = (P ∘ Z)·V where Z is 1/(1 - p) for kept weights and 0 for others; then dV = (P ∘ Z)ᵀ·dO and
dP = (dO·Vᵀ) ∘ Z, and D = rowsum(dO ∘ O) still holds.

`backward_queries` runs first: a program has a tile of queries and visits its keys. It also computes D and stores L and
D padded to whole tiles, so that `backward_keys`, in which a program has a tile of keys and visits the queries that
attend to it, loads them without a mask. No kernel needs atomic additions, so that gradients are bitwise reproducible.
Exponentials are powers of two (see common.py); the factor `scale` is applied once, when dQ and dK are stored.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from headway.ops.kernels.triton_flash.common import (
    CAUSAL_ALIBI,
    FULL,
    GLOBAL,
    LOG2E,
    PARTIAL,
    UNSPECIALISED,
    add_alibi,
    allowed,
    band_ranges,
    head_seed,
    keep_mask,
    key_positions,
    load_rows,
    load_tile,
    store_rows,
)


@triton.jit
def _recompute_p(scores, lse, i, j, base, scale_log2, slope, offset, BIAS: tl.constexpr):
    """P = exp(S - L) = 2^(S·log₂e - L·log₂e).

    `lse` is L·log₂e plus, for causal ALiBi, the term of the query that `add_alibi` leaves out; positions are counted
    from `base`, as in that term.
    """
    if BIAS == 0:
        return tl.exp2(scores * scale_log2 - lse)
    else:
        return tl.exp2(add_alibi(scores * scale_log2, i, j - base, slope, offset - base, BIAS) - lse)


@triton.jit
def _load_lse(lse_ptr, at, inside):
    """L·log₂e, +inf for queries without an allowed key or beyond the last: P = 2^(S - inf) is then 0."""
    lse = tl.load(lse_ptr + at, mask=inside, other=float("inf"))
    return tl.where(lse == float("-inf"), float("inf"), lse) * LOG2E


@triton.jit
def _accumulate_dk_dv(state, k, v, qs, dos, row, head, lse_ptr, delta_ptr, j, begin, end, low, high, keys, scale_log2,
                      slope, offset, seed, dropout, EP: tl.constexpr, WP: tl.constexpr, M: tl.constexpr,
                      HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, BIAS: tl.constexpr,
                      HAS_DROPOUT: tl.constexpr, KIND: tl.constexpr):  # fmt: skip
    """Add to dK/scale and dV of a tile of keys what one range of queries contributes.

    Everything of shape (queries, keys) is transposed here, (N, M): S = K·Qᵀ and so on.
    """
    dk, dv = state
    for m in range(begin, end, M):
        i = m + tl.arange(0, M)
        q = load_tile(qs, row, head, m, M, EP)
        lse = tl.load(lse_ptr + i)  # stored by `backward_queries` in whole tiles: no mask
        scores = tl.dot(k, tl.trans(q), input_precision="ieee")  # Sᵀ/scale
        p = _recompute_p(scores, lse[None, :], i[None, :], j[:, None], m + offset, scale_log2, slope, offset, BIAS)
        if KIND != FULL:
            p = tl.where(allowed(i[None, :], j[:, None], low, high, keys, HAS_LOW, HAS_HIGH, KIND), p, 0.0)
        do = load_tile(dos, row, head, m, M, WP)
        weights = p
        if HAS_DROPOUT:
            keep = tl.where(keep_mask(i[None, :], j[:, None], seed, dropout), 1 / (1 - dropout), 0.0)  # Z
            weights = p * keep
        dv = tl.dot(weights.to(do.dtype), do, dv, input_precision="ieee")  # dV += Pᵀ·dO
        delta = tl.load(delta_ptr + i)
        dp = tl.dot(v, tl.trans(do), input_precision="ieee")  # dPᵀ = V·dOᵀ
        if HAS_DROPOUT:
            dp = dp * keep
        ds = p * (dp - delta[None, :])  # dSᵀ = Pᵀ ∘ (dPᵀ - D)
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")  # dK/scale += dSᵀ·Q
    return dk, dv


@triton.jit(do_not_specialize=UNSPECIALISED)
def backward_keys(qs, ks, vs, dos, dk_ptr, dv_ptr, lse_ptr, delta_ptr, slopes_ptr, lengths_ptr,
                  seed_ptr, dkb, dkh, dkt, dvb, dvh, dvt, pitch, H, G, T, S, C, low, high, scale_log2, scale, offset,
                  dropout, GROUP: tl.constexpr,
                  E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr,
                  M: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
                  HAS_LENGTHS: tl.constexpr, HAS_GLOBALS: tl.constexpr, GLOBALS_PER_TILE: tl.constexpr,
                  HAS_DROPOUT: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """dK and dV of a tile of keys, from all queries that attend to it, of every head that shares it."""
    group = tl.program_id(1) % G
    b = (tl.program_id(1) // G).to(tl.int64)
    first = tl.program_id(0) * N
    j = first + tl.arange(0, N)
    keys = S
    if HAS_LENGTHS:
        keys = tl.minimum(tl.load(lengths_ptr + b).to(tl.int32), S)
    row = tl.program_id(1) // G
    k = load_tile(ks, row, group, first, N, EP)
    v = load_tile(vs, row, group, first, N, WP)
    state = (tl.zeros([N, EP], tl.float32), tl.zeros([N, WP], tl.float32))
    # j - i in [low, high] means i - j in [-high, -low]: the queries of key j are j - high … j - low.
    start, full_start, full_end, end = band_ranges(first, N, M, -high, -low, T, HAS_HIGH, HAS_LOW)
    if not HAS_LOW:
        full_end = end  # queries beyond the last have L = +inf and P = 0: no mask needed
    if HAS_LENGTHS and first + N > keys:  # the row ends inside or before this tile: no tile is full
        full_start = tl.maximum(end, start)
        full_end = full_start
        if first >= keys:
            start = full_start
            end = full_start
    for shared in range(GROUP):
        head = group * GROUP + shared
        slope = 0.0
        if BIAS != 0:
            slope = tl.load(slopes_ptr + head).to(tl.float32) * LOG2E
        stats = (b * H + head) * pitch
        seed = head_seed(seed_ptr, row * H + head, HAS_DROPOUT)
        if HAS_HIGH or HAS_LENGTHS or HAS_LOW:
            state = _accumulate_dk_dv(state, k, v, qs, dos, row, head, lse_ptr + stats, delta_ptr + stats, j,
                                      start, full_start, low, high, keys, scale_log2, slope, offset, seed, dropout,
                                      EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, PARTIAL)  # fmt: skip
        state = _accumulate_dk_dv(state, k, v, qs, dos, row, head, lse_ptr + stats, delta_ptr + stats, j,
                                  full_start, full_end, low, high, keys, scale_log2, slope, offset, seed, dropout,
                                  EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, FULL)  # fmt: skip
        if HAS_LOW:
            state = _accumulate_dk_dv(state, k, v, qs, dos, row, head, lse_ptr + stats, delta_ptr + stats, j,
                                      full_end, end, low, high, keys, scale_log2, slope, offset, seed, dropout,
                                      EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, PARTIAL)  # fmt: skip
    dk, dv = state
    store_rows(dk_ptr + b * dkb + group.to(tl.int64) * dkh, j, dkt, S, dk * scale, E, EP)
    store_rows(dv_ptr + b * dvb + group.to(tl.int64) * dvh, j, dvt, S, dv, W, WP)


@triton.jit(do_not_specialize=UNSPECIALISED)
def backward_global_keys(qs, dos, global_ks, global_vs, dk_ptr, dv_ptr, lse_ptr, delta_ptr, slopes_ptr, lengths_ptr,
                         global_positions_ptr, seed_ptr, pitch, H, G, T, S, C, low, high, scale_log2, scale, offset,
                         dropout, GROUP: tl.constexpr, E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr,
                         WP: tl.constexpr, M: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr,
                         HAS_HIGH: tl.constexpr, HAS_LENGTHS: tl.constexpr, HAS_GLOBALS: tl.constexpr,
                         GLOBALS_PER_TILE: tl.constexpr, HAS_DROPOUT: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """dK and dV of a tile of global keys from N queries outside their band: a partial sum, (parts, B·G, C', E')."""
    group = tl.program_id(1) % G
    row = tl.program_id(1) // G
    b = row.to(tl.int64)
    c = tl.program_id(2) * GLOBALS_PER_TILE
    keys = S
    if HAS_LENGTHS:
        keys = tl.minimum(tl.load(lengths_ptr + b).to(tl.int32), S)
    j = key_positions(c, global_positions_ptr + b * C, C, GLOBALS_PER_TILE, GLOBAL)
    k = load_tile(global_ks, row, group, c, GLOBALS_PER_TILE, EP)
    v = load_tile(global_vs, row, group, c, GLOBALS_PER_TILE, WP)
    state = (tl.zeros([GLOBALS_PER_TILE, EP], tl.float32), tl.zeros([GLOBALS_PER_TILE, WP], tl.float32))
    first = tl.program_id(0) * N
    for shared in range(GROUP):
        head = group * GROUP + shared
        slope = 0.0
        if BIAS != 0:
            slope = tl.load(slopes_ptr + head).to(tl.float32) * LOG2E
        stats = (b * H + head) * pitch
        seed = head_seed(seed_ptr, row * H + head, HAS_DROPOUT)
        state = _accumulate_dk_dv(state, k, v, qs, dos, row, head, lse_ptr + stats, delta_ptr + stats, j, first,
                                  tl.minimum(first + N, T), low, high, keys, scale_log2, slope, offset, seed, dropout,
                                  EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, GLOBAL)  # fmt: skip
    dk, dv = state
    part = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(2) + tl.program_id(2)
    at = part.to(tl.int64) * GLOBALS_PER_TILE + tl.arange(0, GLOBALS_PER_TILE)
    tl.store(dk_ptr + at[:, None] * EP + tl.arange(0, EP)[None, :], dk * scale)
    tl.store(dv_ptr + at[:, None] * WP + tl.arange(0, WP)[None, :], dv)


@triton.jit
def _accumulate_dq(dq, q, do, lse, delta, ks, vs, global_positions_ptr, row, group, i, base, begin, end, low, high,
                   keys, scale_log2, slope, offset, seed, dropout, EP: tl.constexpr, WP: tl.constexpr,
                   N: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, BIAS: tl.constexpr,
                   HAS_DROPOUT: tl.constexpr, KIND: tl.constexpr):  # fmt: skip
    """Add to dQ/scale of a tile of queries what one range of keys contributes."""
    for n in range(begin, end, N):
        j = key_positions(n, global_positions_ptr, end, N, KIND)
        k = load_tile(ks, row, group, n, N, EP)
        v = load_tile(vs, row, group, n, N, WP)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")  # S/scale
        p = _recompute_p(scores, lse[:, None], i[:, None], j[None, :], base, scale_log2, slope, offset, BIAS)
        if KIND != FULL:
            p = tl.where(allowed(i[:, None], j[None, :], low, high, keys, HAS_LOW, HAS_HIGH, KIND), p, 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")  # dP = dO·Vᵀ
        if HAS_DROPOUT:
            dp = tl.where(keep_mask(i[:, None], j[None, :], seed, dropout), dp / (1 - dropout), 0.0)
        ds = p * (dp - delta[:, None])  # dS = P ∘ (dP - D)
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")  # dQ/scale += dS·K
    return dq


@triton.jit
def _delta(o, do, dlse_ptr, at, inside, HAS_DLSE: tl.constexpr):
    """D - dL, with D = rowsum(dO ∘ O): what the denominator of the softmax takes from the gradients of the scores."""
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    if HAS_DLSE:
        delta -= tl.load(dlse_ptr + at, mask=inside, other=0.0)
    return delta


@triton.jit(do_not_specialize=UNSPECIALISED)
def backward_queries(qs, ks, vs, dos, global_ks, global_vs, o_ptr, dq_ptr, lse_ptr, dlse_ptr, lse_out_ptr,
                     delta_out_ptr, slopes_ptr, lengths_ptr, global_positions_ptr, seed_ptr, ob, oh, ot,
                     dqb, dqh, dqt, pitch, H, GROUP, T, S, C,
                     low, high, scale_log2, scale, offset, dropout, HAS_DLSE: tl.constexpr, STEP: tl.constexpr,
                     E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr,
                     M: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
                     HAS_LENGTHS: tl.constexpr, HAS_GLOBALS: tl.constexpr, GLOBALS_PER_TILE: tl.constexpr,
                     HAS_DROPOUT: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """dQ of a tile of queries from all its keys; also stores L·log₂e and D for the other kernels.

    STEP is the number of queries that `backward_keys` loads at a time.
    """
    tile = tl.program_id(0)
    if HAS_HIGH and not HAS_LOW:
        tile = tl.num_programs(0) - 1 - tile  # causal: the longest rows first
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
    # O by plain loads, not by TMA: it is needed only after q and dO have arrived.
    o = load_rows(o_ptr + b * ob + head.to(tl.int64) * oh, i, ot, T, W, WP)
    q = load_tile(qs, row, head, first, M, EP)
    do = load_tile(dos, row, head, first, M, WP)
    saved = tl.program_id(1).to(tl.int64) * T
    lse = _load_lse(lse_ptr, saved + i, i < T)
    delta = _delta(o, do, dlse_ptr, saved + i, i < T, HAS_DLSE)
    stats = tl.program_id(1).to(tl.int64) * pitch + i
    tl.store(delta_out_ptr + stats, delta)
    if BIAS == CAUSAL_ALIBI:  # add the query's term that `add_alibi` leaves out, counted from the start of its tile
        tl.store(lse_out_ptr + stats, lse + slope * (i % STEP).to(tl.float32))
        lse += slope * (i + offset - first).to(tl.float32)
    else:
        tl.store(lse_out_ptr + stats, lse)
    dq = tl.zeros([M, EP], tl.float32)
    start, full_start, full_end, end = band_ranges(first, M, N, low, high, keys, HAS_LOW, HAS_HIGH)
    if HAS_LOW:
        dq = _accumulate_dq(dq, q, do, lse, delta, ks, vs, None, row, group, i, first, start, full_start, low, high,
                            keys, scale_log2, slope, offset, seed, dropout,
                            EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, PARTIAL)  # fmt: skip
    dq = _accumulate_dq(dq, q, do, lse, delta, ks, vs, None, row, group, i, first, full_start, full_end, low, high,
                        keys, scale_log2, slope, offset, seed, dropout,
                        EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, FULL)  # fmt: skip
    dq = _accumulate_dq(dq, q, do, lse, delta, ks, vs, None, row, group, i, first, full_end, end, low, high,
                        keys, scale_log2, slope, offset, seed, dropout,
                        EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, PARTIAL)  # fmt: skip
    if HAS_GLOBALS:
        dq = _accumulate_dq(dq, q, do, lse, delta, global_ks, global_vs, global_positions_ptr + b * C, row, group, i,
                            first, 0, C, low, high, keys, scale_log2, slope, offset, seed, dropout,
                            EP, WP, GLOBALS_PER_TILE, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, GLOBAL)  # fmt: skip
    store_rows(dq_ptr + b * dqb + head.to(tl.int64) * dqh, i, dqt, T, dq * scale, E, EP)
