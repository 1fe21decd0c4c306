"""Attention over a short sequence in Triton: one program per head, all keys in registers, nothing saved for later.

All keys of a head fit one tile, so that the softmax is not online and the backward pass needs no statistics: it
recomputes P and takes rowsum(P ∘ dP) directly (the gradient of the softmax is dS = P ∘ (dP - rowsum(P ∘ dP))).
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _load_rows(ptr, start, stride, i, T, E: tl.constexpr):
    """Tokens i of a head, (…, E); zeros beyond the last."""
    return tl.load(ptr + start + i[:, None] * stride + tl.arange(0, E)[None, :], mask=i[:, None] < T, other=0.0)


@triton.jit
def _store_rows(ptr, start, stride, i, T, E: tl.constexpr, x):
    where = ptr + start + i[:, None] * stride + tl.arange(0, E)[None, :]
    tl.store(where, x.to(ptr.dtype.element_ty), mask=i[:, None] < T)


@triton.jit
def _weights(q, k, i, j, T, scale, HIDE_SELF: tl.constexpr):
    """P, the softmax over all keys, in float32; HIDE_SELF masks the key of each token itself."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * 1.4426950408889634)
    seen = j[None, :] < T
    if HIDE_SELF:
        seen = seen & (i[:, None] != j[None, :])
    scores = tl.where(seen, scores, float("-inf"))
    p = tl.exp2(scores - tl.max(scores, 1)[:, None])
    return p / tl.sum(p, 1)[:, None]


@triton.jit
def forward(q_ptr, k_ptr, v_ptr, o_ptr, qb, qh, qt, kb, kh, kt, vb, vh, vt, ob, oh, ot, H, T, scale,
            E: tl.constexpr, S: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr,
            HIDE_SELF: tl.constexpr):  # fmt: skip
    """The output of one head, one tile of queries after the other."""
    b = (tl.program_id(0) // H).to(tl.int64)
    h = tl.program_id(0) % H
    j = tl.arange(0, S)
    k = _load_rows(k_ptr, b * kb + h * kh, kt, j, T, E)
    v = _load_rows(v_ptr, b * vb + h * vh, vt, j, T, E)
    for tile in range(TILES):
        i = tile * M + tl.arange(0, M)
        q = _load_rows(q_ptr, b * qb + h * qh, qt, i, T, E)
        p = _weights(q, k, i, j, T, scale, HIDE_SELF)
        _store_rows(o_ptr, b * ob + h * oh, ot, i, T, E, tl.dot(p.to(v.dtype), v, input_precision="ieee"))


@triton.jit
def backward(q_ptr, k_ptr, v_ptr, g_ptr, dq_ptr, dk_ptr, dv_ptr, qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt,
             db, dh, dt, H, T, scale,
             E: tl.constexpr, S: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr,
             HIDE_SELF: tl.constexpr):  # fmt: skip
    """dQ, dK and dV of one head, from recomputed weights."""
    b = (tl.program_id(0) // H).to(tl.int64)
    h = tl.program_id(0) % H
    grad_start = b * db + h * dh
    j = tl.arange(0, S)
    k = _load_rows(k_ptr, b * kb + h * kh, kt, j, T, E)
    v = _load_rows(v_ptr, b * vb + h * vh, vt, j, T, E)
    dk = tl.zeros([S, E], tl.float32)
    dv = tl.zeros([S, E], tl.float32)
    for tile in range(TILES):
        i = tile * M + tl.arange(0, M)
        q = _load_rows(q_ptr, b * qb + h * qh, qt, i, T, E)
        g = _load_rows(g_ptr, b * gb + h * gh, gt, i, T, E)
        p = _weights(q, k, i, j, T, scale, HIDE_SELF)
        dv = tl.dot(tl.trans(p.to(g.dtype)), g, dv, input_precision="ieee")  # dV += Pᵀ·dO
        dp = tl.dot(g, tl.trans(v), input_precision="ieee")  # dP = dO·Vᵀ
        ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(q.dtype)  # scale·dS
        dk = tl.dot(tl.trans(ds), q, dk, input_precision="ieee")
        _store_rows(dq_ptr, grad_start, dt, i, T, E, tl.dot(ds, k, input_precision="ieee"))
    _store_rows(dk_ptr, grad_start, dt, j, T, E, dk)
    _store_rows(dv_ptr, grad_start, dt, j, T, E, dv)
