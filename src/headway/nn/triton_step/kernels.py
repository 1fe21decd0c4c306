"""Kernels of a decoder's step: a norm with a matrix-vector product, and attention of one query with its cache."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _activated(y, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        y = tl.maximum(y, 0.0)
    elif ACTIVATION == "gelu":
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":  # 0.5·y·(1 + tanh u) = y·σ(2u)
        y = y / (1.0 + tl.exp(y * (-1.5957691216 - 0.0713548163 * y * y)))
    elif ACTIVATION == "silu":
        y = y / (1.0 + tl.exp(-y))
    return y


@triton.jit
def matvec(x_ptr, weight_ptr, bias_ptr, gain_ptr, shift_ptr, residual_ptr, out_ptr, width, columns, eps,
           ROWS: tl.constexpr, NORM: tl.constexpr, ACTIVATION: tl.constexpr, BIASED: tl.constexpr,
           SHIFTED: tl.constexpr, RESIDUAL: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """out = residual + activation(norm(x)·Wᵀ + bias), COLUMNS of the outputs; x (ROWS, width), W (columns, width)."""
    n, d = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, WIDTH)
    inside, real = n < columns, d < width
    weight = tl.load(weight_ptr + n[:, None] * width + d[None, :], mask=inside[:, None] & real[None, :], other=0.0)
    for row in tl.static_range(ROWS):
        x = tl.load(x_ptr + row * width + d, mask=real, other=0.0).to(tl.float32)
        if NORM != "none":
            centred = x
            if NORM == "layer":
                centred = tl.where(real, x - tl.sum(x, 0) / width, 0.0)
            x = centred * tl.rsqrt(tl.sum(centred * centred, 0) / width + eps)
            x *= tl.load(gain_ptr + d, mask=real, other=0.0).to(tl.float32)
            if SHIFTED:
                x += tl.load(shift_ptr + d, mask=real, other=0.0).to(tl.float32)
            x = x.to(weight_ptr.dtype.element_ty).to(tl.float32)  # as a norm of its own would write it
        y = tl.sum(weight.to(tl.float32) * x[None, :], 1)
        if BIASED:
            y += tl.load(bias_ptr + n, mask=inside, other=0.0).to(tl.float32)
        y = _activated(y, ACTIVATION)
        if RESIDUAL:
            y = y.to(weight_ptr.dtype.element_ty).to(tl.float32)
            y += tl.load(residual_ptr + row * columns + n, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * columns + n, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def attend_one(qkv_ptr, k_ptr, v_ptr, length_ptr, out_ptr, capacity, scale,
               HEADS: tl.constexpr, GROUPS: tl.constexpr, E: tl.constexpr, E_BLOCK: tl.constexpr,
               KEYS: tl.constexpr):  # fmt: skip
    """One head of one row: its new key and value go into the cache, its query attends to all up to itself.

    qkv (B, (H + 2G)·E), k and v (B, G, capacity, E), out (B, H·E). The new key is taken from qkv, not from the cache,
    which another program may not have written yet.
    """
    row, head = tl.program_id(0), tl.program_id(1)
    group = head // (HEADS // GROUPS)
    e, here = tl.arange(0, E_BLOCK), tl.arange(0, E_BLOCK) < E
    qkv_ptr += row * (HEADS + 2 * GROUPS) * E
    q = tl.load(qkv_ptr + head * E + e, mask=here, other=0.0).to(tl.float32) * scale
    new_k = tl.load(qkv_ptr + (HEADS + group) * E + e, mask=here, other=0.0)
    new_v = tl.load(qkv_ptr + (HEADS + GROUPS + group) * E + e, mask=here, other=0.0)
    length = tl.load(length_ptr).to(tl.int32)
    k_ptr += (row * GROUPS + group).to(tl.int64) * capacity * E
    v_ptr += (row * GROUPS + group).to(tl.int64) * capacity * E
    if head % (HEADS // GROUPS) == 0:
        tl.store(k_ptr + length * E + e, new_k, mask=here)
        tl.store(v_ptr + length * E + e, new_v, mask=here)
    largest = tl.sum(q * new_k.to(tl.float32), 0)
    total, mixed = 1.0, new_v.to(tl.float32)
    for first in range(0, length, KEYS):
        s = first + tl.arange(0, KEYS)
        at, real = s[:, None] * E + e[None, :], (s < length)[:, None] & here[None, :]
        k = tl.load(k_ptr + at, mask=real, other=0.0).to(tl.float32)
        scores = tl.where(s < length, tl.sum(k * q[None, :], 1), -float("inf"))
        higher = tl.maximum(largest, tl.max(scores, 0))
        weights, kept = tl.exp(scores - higher), tl.exp(largest - higher)
        v = tl.load(v_ptr + at, mask=real, other=0.0).to(tl.float32)
        mixed = mixed * kept + tl.sum(weights[:, None] * v, 0)
        total = total * kept + tl.sum(weights, 0)
        largest = higher
    tl.store(out_ptr + (row * HEADS + head) * E + e, (mixed / total).to(out_ptr.dtype.element_ty), mask=here)
