"""FlashAttention backwards, in Triton: dQ a tile of queries at a time, then dK and dV a tile of keys at a time."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from headway.ops.kernels.triton_flash.tiles import (
    AHEAD,
    APART,
    EDGE,
    INSIDE,
    LOG2E,
    NUMBERS,
    allowed,
    biased,
    kept,
    places,
    put_rows,
    rows,
    rows_at,
    stream,
    stretches,
)


@triton.jit
def _powers(scores, lse, i, j, base, scale, slope, offset, BIAS: tl.constexpr):
    """e^(score - lse) again, from a `lse` in powers of two that has `biased`'s other part in it."""
    if BIAS == 0:
        return tl.exp2(scores * scale - lse)
    else:
        return tl.exp2(biased(scores * scale, i, j - base, slope, offset - base, BIAS) - lse)


@triton.jit
def _denominators(lse_ptr, line, inside):
    """log₂ of the denominators, +inf where there are none (then every power is 0)."""
    lse = tl.load(lse_ptr + line, mask=inside, other=float("inf"))
    return tl.where(lse == float("-inf"), float("inf"), lse) * LOG2E


@triton.jit
def _gather(state, k, v, qs, dos, row, head, lse_ptr, delta_ptr, j, begin, end, low, high, keys, scale, slope,
            offset, seed, chance, EP: tl.constexpr, WP: tl.constexpr, M: tl.constexpr, HAS_LOW: tl.constexpr,
            HAS_HIGH: tl.constexpr, BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, KIND: tl.constexpr):  # fmt: skip
    """dK and dV of a tile from one stretch of queries; scores stand transposed, (N, M)."""
    dk, dv = state
    for m in range(begin, end, M):
        i = m + tl.arange(0, M)
        q = rows(qs, row, head, m, M, EP)
        lse = tl.load(lse_ptr + i)  # as `backward_queries` left it, whole tiles long: no mask
        scores = tl.dot(k, tl.trans(q), input_precision="ieee")
        p = _powers(scores, lse[None, :], i[None, :], j[:, None], m + offset, scale, slope, offset, BIAS)
        if KIND != INSIDE:
            p = tl.where(allowed(i[None, :], j[:, None], low, high, keys, HAS_LOW, HAS_HIGH, KIND), p, 0.0)
        do = rows(dos, row, head, m, M, WP)
        weights = p
        if HAS_DROPOUT:
            keep = tl.where(kept(i[None, :], j[:, None], seed, chance), 1 / (1 - chance), 0.0)
            weights = p * keep
        dv = tl.dot(weights.to(do.dtype), do, dv, input_precision="ieee")
        delta = tl.load(delta_ptr + i)
        dp = tl.dot(v, tl.trans(do), input_precision="ieee")
        if HAS_DROPOUT:
            dp = dp * keep
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit(do_not_specialize=NUMBERS)
def backward_keys(qs, ks, vs, dos, dk_ptr, dv_ptr, lse_ptr, delta_ptr, slopes_ptr, lengths_ptr,
                  seed_ptr, dkb, dkh, dkt, dvb, dvh, dvt, pitch, H, G, T, S, C, low, high, scale, natural, offset,
                  chance, GROUP: tl.constexpr,
                  E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr,
                  M: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
                  HAS_LENGTHS: tl.constexpr, HAS_PLACES: tl.constexpr, PICKED: tl.constexpr,
                  HAS_DROPOUT: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """dK and dV of a tile of keys, from all queries that see it, of every head that shares it."""
    group = tl.program_id(1) % G
    b = (tl.program_id(1) // G).to(tl.int64)
    first = tl.program_id(0) * N
    j = first + tl.arange(0, N)
    keys = S
    if HAS_LENGTHS:
        keys = tl.minimum(tl.load(lengths_ptr + b).to(tl.int32), S)
    row = tl.program_id(1) // G
    k = rows(ks, row, group, first, N, EP)
    v = rows(vs, row, group, first, N, WP)
    state = (tl.zeros([N, EP], tl.float32), tl.zeros([N, WP], tl.float32))
    # Seen from a key, the band runs the other way: queries j - high … j - low.
    start, whole, edge, end = stretches(first, N, M, -high, -low, T, HAS_HIGH, HAS_LOW)
    if not HAS_LOW:
        edge = end  # queries beyond the last have no power, masked or not
    if HAS_LENGTHS and first + N > keys:  # a tile that a row's length cuts has no whole tiles
        whole = tl.maximum(end, start)
        edge = whole
        if first >= keys:
            start = whole
            end = whole
    for member in range(GROUP):
        head = group * GROUP + member
        slope = 0.0
        if BIAS != 0:
            slope = tl.load(slopes_ptr + head).to(tl.float32) * LOG2E
        line = (b * H + head) * pitch
        seed = stream(seed_ptr, row * H + head, HAS_DROPOUT)
        if HAS_HIGH or HAS_LENGTHS or HAS_LOW:
            state = _gather(state, k, v, qs, dos, row, head, lse_ptr + line, delta_ptr + line, j, start, whole,
                            low, high, keys, scale, slope, offset, seed, chance,
                            EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, EDGE)  # fmt: skip
        state = _gather(state, k, v, qs, dos, row, head, lse_ptr + line, delta_ptr + line, j, whole, edge,
                        low, high, keys, scale, slope, offset, seed, chance,
                        EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, INSIDE)  # fmt: skip
        if HAS_LOW:
            state = _gather(state, k, v, qs, dos, row, head, lse_ptr + line, delta_ptr + line, j, edge, end,
                            low, high, keys, scale, slope, offset, seed, chance,
                            EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, EDGE)  # fmt: skip
    dk, dv = state
    put_rows(dk_ptr + b * dkb + group.to(tl.int64) * dkh, j, dkt, S, dk * natural, E, EP)
    put_rows(dv_ptr + b * dvb + group.to(tl.int64) * dvh, j, dvt, S, dv, W, WP)


@triton.jit(do_not_specialize=NUMBERS)
def backward_picked(qs, dos, picked_ks, picked_vs, dk_ptr, dv_ptr, lse_ptr, delta_ptr, slopes_ptr, lengths_ptr,
                    places_ptr, seed_ptr, pitch, H, G, T, S, C, low, high, scale, natural, offset, chance,
                    GROUP: tl.constexpr, E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr,
                    M: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
                    HAS_LENGTHS: tl.constexpr, HAS_PLACES: tl.constexpr, PICKED: tl.constexpr,
                    HAS_DROPOUT: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """dK and dV of keys that are seen from everywhere, from N queries: a part of the sum, (parts, B·G, C', E')."""
    group = tl.program_id(1) % G
    row = tl.program_id(1) // G
    b = row.to(tl.int64)
    c = tl.program_id(2) * PICKED
    keys = S
    if HAS_LENGTHS:
        keys = tl.minimum(tl.load(lengths_ptr + b).to(tl.int32), S)
    j = places(c, places_ptr + b * C, C, PICKED, APART)
    k = rows(picked_ks, row, group, c, PICKED, EP)
    v = rows(picked_vs, row, group, c, PICKED, WP)
    state = (tl.zeros([PICKED, EP], tl.float32), tl.zeros([PICKED, WP], tl.float32))
    first = tl.program_id(0) * N
    for member in range(GROUP):
        head = group * GROUP + member
        slope = 0.0
        if BIAS != 0:
            slope = tl.load(slopes_ptr + head).to(tl.float32) * LOG2E
        line = (b * H + head) * pitch
        seed = stream(seed_ptr, row * H + head, HAS_DROPOUT)
        state = _gather(state, k, v, qs, dos, row, head, lse_ptr + line, delta_ptr + line, j, first,
                        tl.minimum(first + N, T), low, high, keys, scale, slope, offset, seed, chance,
                        EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, APART)  # fmt: skip
    dk, dv = state
    part = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(2) + tl.program_id(2)
    line = part.to(tl.int64) * PICKED + tl.arange(0, PICKED)
    tl.store(dk_ptr + line[:, None] * EP + tl.arange(0, EP)[None, :], dk * natural)
    tl.store(dv_ptr + line[:, None] * WP + tl.arange(0, WP)[None, :], dv)


@triton.jit
def _spread(dq, q, do, lse, delta, ks, vs, places_ptr, row, group, i, base, begin, end, low, high, keys, scale,
            slope, offset, seed, chance, EP: tl.constexpr, WP: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr,
            HAS_HIGH: tl.constexpr, BIAS: tl.constexpr, HAS_DROPOUT: tl.constexpr, KIND: tl.constexpr):  # fmt: skip
    """dQ of a tile from one stretch of keys."""
    for n in range(begin, end, N):
        j = places(n, places_ptr, end, N, KIND)
        k = rows(ks, row, group, n, N, EP)
        v = rows(vs, row, group, n, N, WP)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        p = _powers(scores, lse[:, None], i[:, None], j[None, :], base, scale, slope, offset, BIAS)
        if KIND != INSIDE:
            p = tl.where(allowed(i[:, None], j[None, :], low, high, keys, HAS_LOW, HAS_HIGH, KIND), p, 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        if HAS_DROPOUT:
            dp = tl.where(kept(i[:, None], j[None, :], seed, chance), dp / (1 - chance), 0.0)
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit
def _row_products(o, do, dlse_ptr, line, inside, HAS_DLSE: tl.constexpr):
    """delta = Σ dO·O - dL for each query: what its scores' gradients lose to the denominator."""
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    if HAS_DLSE:
        delta -= tl.load(dlse_ptr + line, mask=inside, other=0.0)
    return delta


@triton.jit(do_not_specialize=NUMBERS)
def backward_queries(qs, ks, vs, dos, picked_ks, picked_vs, o_ptr, dq_ptr, lse_ptr, dlse_ptr, lines_ptr, deltas_ptr,
                     slopes_ptr, lengths_ptr, places_ptr, seed_ptr, ob, oh, ot, dqb, dqh, dqt, pitch, H, GROUP, T, S, C,
                     low, high, scale, natural, offset, chance, HAS_DLSE: tl.constexpr, STEP: tl.constexpr,
                     E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr,
                     M: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
                     HAS_LENGTHS: tl.constexpr, HAS_PLACES: tl.constexpr, PICKED: tl.constexpr,
                     HAS_DROPOUT: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """dQ of a tile of queries, from all keys it sees, and what dK and dV need of them, read STEP at a time."""
    tile = tl.program_id(0)
    if HAS_HIGH and not HAS_LOW:
        tile = tl.num_programs(0) - 1 - tile
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
    # Not through the copy engine: nobody waits for these numbers until those of q and dO are there.
    o = rows_at(o_ptr + b * ob + head.to(tl.int64) * oh, i, ot, T, W, WP)
    q = rows(qs, row, head, first, M, EP)
    do = rows(dos, row, head, first, M, WP)
    line = tl.program_id(1).to(tl.int64) * T
    lse = _denominators(lse_ptr, line + i, i < T)
    delta = _row_products(o, do, dlse_ptr, line + i, i < T, HAS_DLSE)
    left = tl.program_id(1).to(tl.int64) * pitch + i
    tl.store(deltas_ptr + left, delta)
    if BIAS == AHEAD:  # each with `biased`'s other part, seen from where its own tile begins
        tl.store(lines_ptr + left, lse + slope * (i % STEP).to(tl.float32))
        lse += slope * (i + offset - first).to(tl.float32)
    else:
        tl.store(lines_ptr + left, lse)
    dq = tl.zeros([M, EP], tl.float32)
    start, whole, edge, end = stretches(first, M, N, low, high, keys, HAS_LOW, HAS_HIGH)
    if HAS_LOW:
        dq = _spread(dq, q, do, lse, delta, ks, vs, None, row, group, i, first, start, whole, low, high, keys, scale,
                     slope, offset, seed, chance, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, EDGE)  # fmt: skip
    dq = _spread(dq, q, do, lse, delta, ks, vs, None, row, group, i, first, whole, edge, low, high, keys, scale,
                 slope, offset, seed, chance, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, INSIDE)  # fmt: skip
    dq = _spread(dq, q, do, lse, delta, ks, vs, None, row, group, i, first, edge, end, low, high, keys, scale,
                 slope, offset, seed, chance, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, EDGE)  # fmt: skip
    if HAS_PLACES:
        dq = _spread(dq, q, do, lse, delta, picked_ks, picked_vs, places_ptr + b * C, row, group, i, first, 0, C, low,
                     high, keys, scale, slope, offset, seed, chance,
                     EP, WP, PICKED, HAS_LOW, HAS_HIGH, BIAS, HAS_DROPOUT, APART)  # fmt: skip
    put_rows(dq_ptr + b * dqb + head.to(tl.int64) * dqh, i, dqt, T, dq * natural, E, EP)
