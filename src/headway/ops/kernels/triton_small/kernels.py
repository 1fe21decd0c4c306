"""Attention over a short sequence, in Triton: one program a head, all keys on the chip, nothing kept for later."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _rows(ptr, at, step, i, T, E: tl.constexpr):
    """Tokens i of a head (…, E); zeros beyond the last."""
    return tl.load(ptr + at + i[:, None] * step + tl.arange(0, E)[None, :], mask=i[:, None] < T, other=0.0)


@triton.jit
def _put(ptr, at, step, i, T, E: tl.constexpr, x):
    tl.store(ptr + at + i[:, None] * step + tl.arange(0, E)[None, :], x.to(ptr.dtype.element_ty), mask=i[:, None] < T)


@triton.jit
def _weights(q, k, i, j, T, scale, APART: tl.constexpr):
    """Softmax over all keys at once, in float32; APART hides a token from itself."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
    seen = j[None, :] < T
    if APART:
        seen = seen & (i[:, None] != j[None, :])
    scores = tl.where(seen, scores, float("-inf"))
    p = tl.exp2(scores - tl.max(scores, 1)[:, None])
    return p / tl.sum(p, 1)[:, None]


@triton.jit
def forward(q_ptr, k_ptr, v_ptr, o_ptr, qb, qh, qt, kb, kh, kt, vb, vh, vt, ob, oh, ot, H, T, scale,
            E: tl.constexpr, S: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr, APART: tl.constexpr):  # fmt: skip
    """The output of one head, a tile of queries after the other."""
    b = (tl.program_id(0) // H).to(tl.int64)
    h = tl.program_id(0) % H
    j = tl.arange(0, S)
    k = _rows(k_ptr, b * kb + h * kh, kt, j, T, E)
    v = _rows(v_ptr, b * vb + h * vh, vt, j, T, E)
    for tile in range(TILES):
        i = tile * M + tl.arange(0, M)
        q = _rows(q_ptr, b * qb + h * qh, qt, i, T, E)
        p = _weights(q, k, i, j, T, scale, APART)
        _put(o_ptr, b * ob + h * oh, ot, i, T, E, tl.dot(p.to(v.dtype), v, input_precision="ieee"))


@triton.jit
def backward(q_ptr, k_ptr, v_ptr, g_ptr, dq_ptr, dk_ptr, dv_ptr, qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt,
             db, dh, dt, H, T, scale,
             E: tl.constexpr, S: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr, APART: tl.constexpr):  # fmt: skip
    """The three gradients of one head: the weights are made again, whole rows of them, so that none was kept."""
    b = (tl.program_id(0) // H).to(tl.int64)
    h = tl.program_id(0) % H
    into = b * db + h * dh
    j = tl.arange(0, S)
    k = _rows(k_ptr, b * kb + h * kh, kt, j, T, E)
    v = _rows(v_ptr, b * vb + h * vh, vt, j, T, E)
    dk = tl.zeros([S, E], tl.float32)
    dv = tl.zeros([S, E], tl.float32)
    for tile in range(TILES):
        i = tile * M + tl.arange(0, M)
        q = _rows(q_ptr, b * qb + h * qh, qt, i, T, E)
        g = _rows(g_ptr, b * gb + h * gh, gt, i, T, E)
        p = _weights(q, k, i, j, T, scale, APART)
        dv = tl.dot(tl.trans(p.to(g.dtype)), g, dv, input_precision="ieee")
        dp = tl.dot(g, tl.trans(v), input_precision="ieee")
        ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(q.dtype)
        dk = tl.dot(tl.trans(ds), q, dk, input_precision="ieee")
        _put(dq_ptr, into, dt, i, T, E, tl.dot(ds, k, input_precision="ieee"))
    _put(dk_ptr, into, dt, j, T, E, dk)
    _put(dv_ptr, into, dt, j, T, E, dv)
