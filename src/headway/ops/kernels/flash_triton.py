"""FlashAttention for a GPU, in Triton: the loops of `tiled`, one program a tile (FACTS §20).

Keys that query i sees form a band, i + low ≤ j ≤ i + high, cut off at the row's length. A program walks the band in
three stretches: tiles that the band's lower edge cuts, tiles wholly inside, which need no mask, and tiles that the
upper edge or the end of the keys cuts. Powers are of two: the scale that comes in is multiplied by log₂e. Letters: M
queries and N keys of a tile, EP and WP the widths E and W filled up to a power of two.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
AHEAD = tl.constexpr(1)  # ALiBi where no key lies after its query: |i - j| = i - j
BOTH = tl.constexpr(2)  # ALiBi on both sides
NUMBERS = ["H", "T", "S", "low", "high", "offset"]  # whose values make no other code


@triton.jit
def _rows(source, b, head, first, COUNT: tl.constexpr, PADDED: tl.constexpr):
    """Tokens `first` onwards of a batch row and head: (COUNT, PADDED), zeros beyond the edges."""
    return source.load([b, head, first, 0]).reshape([COUNT, PADDED])


@triton.jit
def _at(pointer, index, stride, limit, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Rows `index` of a matrix whose rows are `stride` apart, as `_put` writes them."""
    column = tl.arange(0, PADDED)
    inside = (index[:, None] < limit) & (column[None, :] < WIDTH)
    return tl.load(pointer + index[:, None] * stride + column[None, :], mask=inside, other=0.0)


@triton.jit
def _put(pointer, index, stride, limit, value, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Write rows `index`, as `_rows` reads them."""
    column = tl.arange(0, PADDED)
    where = pointer + index[:, None] * stride + column[None, :]
    inside = (index[:, None] < limit) & (column[None, :] < WIDTH)
    tl.store(where, value.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def _allowed(i, j, low, high, keys, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr):
    """May query i look at key j?"""
    inside = j < keys
    if HAS_LOW:
        inside = inside & (j >= i + low)
    if HAS_HIGH:
        inside = inside & (j <= i + high)
    return inside


@triton.jit
def _biased(scores, i, j, slope, offset, BIAS: tl.constexpr):
    """Scores plus ALiBi, less what is the same for a whole query (`_shift` has that)."""
    if BIAS == AHEAD:
        return scores + slope * j.to(tl.float32)
    elif BIAS == BOTH:
        return scores - slope * tl.abs((i + offset - j).to(tl.float32))
    else:
        return scores


@triton.jit
def _stretches(first, SIZE: tl.constexpr, STEP: tl.constexpr, low, high, end, HAS_LOW: tl.constexpr,
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
def _look(state, q, ks, vs, b, group, i, shift, begin, end, low, high, keys, scale, slope, offset,
          E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr, N: tl.constexpr,
          HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, BIAS: tl.constexpr, EDGE: tl.constexpr):  # fmt: skip
    """The forward pass over one stretch: the online softmax."""
    acc, total, most = state
    for n in range(begin, end, N):
        j = n + tl.arange(0, N)
        k = _rows(ks, b, group, n, N, EP)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if EDGE or BIAS != 0:
            scores = _biased(scores * scale, i[:, None], (j - shift)[None, :], slope, offset - shift, BIAS)
            if EDGE:
                seen = _allowed(i[:, None], j[None, :], low, high, keys, HAS_LOW, HAS_HIGH)
                scores = tl.where(seen, scores, float("-inf"))
            now = tl.maximum(most, tl.max(scores, 1))
            base = now
            if EDGE:  # a query that has seen nothing yet: -inf - -inf is no number
                base = tl.where(now == float("-inf"), 0.0, now)
            p = tl.exp2(scores - base[:, None])
        else:
            now = tl.maximum(most, tl.max(scores, 1) * scale)
            base = now
            p = tl.exp2(scores * scale - base[:, None])
        fade = tl.exp2(most - base)
        total = total * fade + tl.sum(p, 1)
        acc = acc * fade[:, None]
        v = _rows(vs, b, group, n, N, WP)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        most = now
    return acc, total, most


@triton.jit(do_not_specialize=NUMBERS)
def forward(qs, ks, vs, o_ptr, lse_ptr, slopes_ptr, lengths_ptr,
            ob, oh, ot,
            H, GROUP, T, S, low, high, scale, natural, offset,
            E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
            HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, HAS_LENGTHS: tl.constexpr,
            BIAS: tl.constexpr):  # fmt: skip
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
    row = tl.program_id(1) // H
    q = _rows(qs, row, head, first, M, EP)
    state = (tl.zeros([M, WP], tl.float32), tl.zeros([M], tl.float32), tl.full([M], float("-inf"), tl.float32))
    start, whole, edge, end = _stretches(first, M, N, low, high, keys, HAS_LOW, HAS_HIGH)
    if HAS_LOW:
        state = _look(state, q, ks, vs, row, group, i, first, start, whole, low, high, keys, scale, slope, offset,
                      E, W, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, True)  # fmt: skip
    state = _look(state, q, ks, vs, row, group, i, first, whole, edge, low, high, keys, scale, slope, offset,
                  E, W, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, False)  # fmt: skip
    state = _look(state, q, ks, vs, row, group, i, first, edge, end, low, high, keys, scale, slope, offset,
                  E, W, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, True)  # fmt: skip
    acc, total, most = state
    none = total == 0.0
    acc = acc / tl.where(none, 1.0, total)[:, None]
    lse = (most + tl.log2(tl.where(none, 1.0, total))) * LN2
    if BIAS == AHEAD:
        lse -= slope * LN2 * (i + offset - first).to(tl.float32)
    _put(o_ptr + b * ob + head.to(tl.int64) * oh, i, ot, T, acc, W, WP)
    tl.store(lse_ptr + tl.program_id(1).to(tl.int64) * T + i, lse, mask=i < T)


@triton.jit(do_not_specialize=["H", "T"])
def row_products(o_ptr, do_ptr, dlse_ptr, delta_ptr, ob, oh, ot, db, dh, dt, H, T,
                 W: tl.constexpr, WP: tl.constexpr, M: tl.constexpr, HAS_DLSE: tl.constexpr):  # fmt: skip
    """delta = Σ dO·O - dL for each query: what its scores' gradients lose to the denominator."""
    head = (tl.program_id(1) % H).to(tl.int64)
    b = (tl.program_id(1) // H).to(tl.int64)
    i = tl.program_id(0) * M + tl.arange(0, M)
    o = _at(o_ptr + b * ob + head * oh, i, ot, T, W, WP).to(tl.float32)
    do = _at(do_ptr + b * db + head * dh, i, dt, T, W, WP).to(tl.float32)
    delta = tl.sum(o * do, 1)
    line = tl.program_id(1).to(tl.int64) * T + i
    if HAS_DLSE:
        delta -= tl.load(dlse_ptr + line, mask=i < T, other=0.0)
    tl.store(delta_ptr + line, delta, mask=i < T)


@triton.jit
def _powers(scores, lse, i, j, base, scale, slope, offset, BIAS: tl.constexpr):
    """e^(score - lse) again; `lse` in powers of two, with `_shift`'s part in it. i, j and lse broadcast."""
    if BIAS == 0:
        return tl.exp2(scores * scale - lse)
    else:
        return tl.exp2(_biased(scores * scale, i, j - base, slope, offset - base, BIAS) - lse)


@triton.jit
def _denominators(lse_ptr, i, T, base, slope, offset, BIAS: tl.constexpr):
    """log₂ of the denominators, +inf where there are none (then every power is 0)."""
    lse = tl.load(lse_ptr + i, mask=i < T, other=float("inf"))
    lse = tl.where(lse == float("-inf"), float("inf"), lse) * LOG2E
    if BIAS == AHEAD:
        lse += slope * (i + offset - base).to(tl.float32)
    return lse


@triton.jit
def _gather(state, k, v, qs, dos, row, head, lse_ptr, delta_ptr, j, base, begin, end, low, high, T, keys, scale,
            slope, offset, E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr, M: tl.constexpr,
            HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, BIAS: tl.constexpr, EDGE: tl.constexpr):  # fmt: skip
    """dK and dV of a tile from one stretch of queries; scores stand transposed, (N, M)."""
    dk, dv = state
    for m in range(begin, end, M):
        i = m + tl.arange(0, M)
        q = _rows(qs, row, head, m, M, EP)
        lse = _denominators(lse_ptr, i, T, base, slope, offset, BIAS)
        scores = tl.dot(k, tl.trans(q), input_precision="ieee")
        p = _powers(scores, lse[None, :], i[None, :], j[:, None], base, scale, slope, offset, BIAS)
        if EDGE:
            p = tl.where(_allowed(i[None, :], j[:, None], low, high, keys, HAS_LOW, HAS_HIGH), p, 0.0)
        do = _rows(dos, row, head, m, M, WP)
        dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")
        delta = tl.load(delta_ptr + i, mask=i < T, other=0.0)
        dp = tl.dot(v, tl.trans(do), input_precision="ieee")
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit(do_not_specialize=NUMBERS)
def backward_keys(qs, ks, vs, dos, dk_ptr, dv_ptr, lse_ptr, delta_ptr, slopes_ptr, lengths_ptr,
                  dkb, dkh, dkt, dvb, dvh, dvt,
                  H, G, T, S, low, high, scale, natural, offset, GROUP: tl.constexpr,
                  E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr,
                  M: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
                  HAS_LENGTHS: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """dK and dV of a tile of keys, from all queries that see it, of every head that shares it."""
    group = tl.program_id(1) % G
    b = (tl.program_id(1) // G).to(tl.int64)
    first = tl.program_id(0) * N
    j = first + tl.arange(0, N)
    keys = S
    if HAS_LENGTHS:
        keys = tl.minimum(tl.load(lengths_ptr + b).to(tl.int32), S)
    row = tl.program_id(1) // G
    k = _rows(ks, row, group, first, N, EP)
    v = _rows(vs, row, group, first, N, WP)
    state = (tl.zeros([N, EP], tl.float32), tl.zeros([N, WP], tl.float32))
    # Seen from a key, the band runs the other way: queries j - high … j - low.
    start, whole, edge, end = _stretches(first, N, M, -high, -low, T, HAS_HIGH, HAS_LOW)
    if first + N > keys:  # the tile that the end of the keys cuts has no whole tiles
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
        line = (b * H + head) * T
        state = _gather(state, k, v, qs, dos, row, head, lse_ptr + line, delta_ptr + line, j, first, start, whole, low,
                        high, T, keys, scale, slope, offset,
                        E, W, EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, True)  # fmt: skip
        state = _gather(state, k, v, qs, dos, row, head, lse_ptr + line, delta_ptr + line, j, first, whole, edge, low,
                        high, T, keys, scale, slope, offset,
                        E, W, EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, False)  # fmt: skip
        state = _gather(state, k, v, qs, dos, row, head, lse_ptr + line, delta_ptr + line, j, first, edge, end, low,
                        high, T, keys, scale, slope, offset,
                        E, W, EP, WP, M, HAS_LOW, HAS_HIGH, BIAS, True)  # fmt: skip
    dk, dv = state
    _put(dk_ptr + b * dkb + group.to(tl.int64) * dkh, j, dkt, S, dk * natural, E, EP)
    _put(dv_ptr + b * dvb + group.to(tl.int64) * dvh, j, dvt, S, dv, W, WP)


@triton.jit
def _spread(dq, q, do, lse, delta, ks, vs, row, group, i, base, begin, end, low, high, keys, scale, slope, offset,
            E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr, N: tl.constexpr,
            HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, BIAS: tl.constexpr, EDGE: tl.constexpr):  # fmt: skip
    """dQ of a tile from one stretch of keys."""
    for n in range(begin, end, N):
        j = n + tl.arange(0, N)
        k = _rows(ks, row, group, n, N, EP)
        v = _rows(vs, row, group, n, N, WP)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        p = _powers(scores, lse[:, None], i[:, None], j[None, :], base, scale, slope, offset, BIAS)
        if EDGE:
            p = tl.where(_allowed(i[:, None], j[None, :], low, high, keys, HAS_LOW, HAS_HIGH), p, 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit(do_not_specialize=NUMBERS)
def backward_queries(qs, ks, vs, dos, dq_ptr, lse_ptr, delta_ptr, slopes_ptr, lengths_ptr,
                     dqb, dqh, dqt,
                     H, GROUP, T, S, low, high, scale, natural, offset,
                     E: tl.constexpr, W: tl.constexpr, EP: tl.constexpr, WP: tl.constexpr,
                     M: tl.constexpr, N: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
                     HAS_LENGTHS: tl.constexpr, BIAS: tl.constexpr):  # fmt: skip
    """dQ of a tile of queries, from all keys it sees."""
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
    row = tl.program_id(1) // H
    q = _rows(qs, row, head, first, M, EP)
    do = _rows(dos, row, head, first, M, WP)
    line = tl.program_id(1).to(tl.int64) * T
    lse = _denominators(lse_ptr + line, i, T, first, slope, offset, BIAS)
    delta = tl.load(delta_ptr + line + i, mask=i < T, other=0.0)
    dq = tl.zeros([M, EP], tl.float32)
    start, whole, edge, end = _stretches(first, M, N, low, high, keys, HAS_LOW, HAS_HIGH)
    if HAS_LOW:
        dq = _spread(dq, q, do, lse, delta, ks, vs, row, group, i, first, start, whole, low, high, keys, scale,
                     slope, offset, E, W, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, True)  # fmt: skip
    dq = _spread(dq, q, do, lse, delta, ks, vs, row, group, i, first, whole, edge, low, high, keys, scale,
                 slope, offset, E, W, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, False)  # fmt: skip
    dq = _spread(dq, q, do, lse, delta, ks, vs, row, group, i, first, edge, end, low, high, keys, scale,
                 slope, offset, E, W, EP, WP, N, HAS_LOW, HAS_HIGH, BIAS, True)  # fmt: skip
    _put(dq_ptr + b * dqb + head.to(tl.int64) * dqh, i, dqt, T, dq * natural, E, EP)
