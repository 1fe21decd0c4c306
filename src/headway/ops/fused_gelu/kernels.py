"""GELU and its gradient in Triton, with the sums over rows that are the gradient of the preceding bias."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _normal(h):
    """Φ(h) and φ(h), the normal distribution function and density, from one exponential.

    Φ = 1 - φ·(b₁t + … + b₅t⁵) with t = 1/(1 + p|h|), to 7.5e-8 (Abramowitz and Stegun, 26.2.17). With the
    instructions of torch's erf the kernel would no longer be bound by memory.
    """
    density = 0.3989422804014327 * tl.exp2(h * h * -0.7213475204444817)
    t = 1.0 / (1.0 + 0.2316419 * tl.abs(h))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = density * series
    return tl.where(h < 0, tail, 1.0 - tail), density


@triton.jit
def _gate(h, TANH: tl.constexpr):
    """g(h), of which h·g(h) is GELU, and its derivative: Φ, or with TANH the approximation of Hendrycks and Gimpel.

    (1 + tanh u)/2 = σ(2u) with 2u = 2√(2/π)·(h + 0.044715·h³): one exponential, here in base 2.
    """
    if TANH:
        square = h * h
        gate = 1.0 / (1.0 + tl.exp2(h * (-2.302208198 - 0.1029432396 * square)))
        slope = gate * (1.0 - gate) * (1.5957691216 + 0.2140644488 * square)
    else:
        gate, slope = _normal(h)
    return gate, slope


@triton.jit
def forward(h_ptr, out_ptr, count, TANH: tl.constexpr, BLOCK: tl.constexpr):
    """GELU of BLOCK consecutive elements."""
    first = tl.program_id(0).to(tl.int64) * BLOCK  # tensors may exceed 2³¹ elements; offsets in a block need 32 bits
    at = tl.arange(0, BLOCK)
    inside = at < tl.minimum(count - first, BLOCK).to(tl.int32)
    h = tl.load(h_ptr + first + at, mask=inside, other=0.0).to(tl.float32)
    part, _ = _gate(h, TANH)
    tl.store(out_ptr + first + at, (h * part).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward(grad_ptr, h_ptr, out_ptr, sums_ptr, rows, columns,
             TANH: tl.constexpr, ROWS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    """grad·gelu'(h) = grad·(g + h·g') of ROWS rows of N columns, M rows at a time, and the sums over these rows."""
    first = tl.program_id(1) * ROWS
    start = first.to(tl.int64) * columns
    # 64 bits in the base pointers only: with 64-bit offsets it took 157 µs, where reading and writing takes 118.
    grad_ptr, h_ptr, out_ptr = grad_ptr + start, h_ptr + start, out_ptr + start
    row, column = tl.arange(0, M), tl.program_id(0) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for m in range(0, ROWS, M):
        at = (m + row)[:, None] * columns + column[None, :]
        inside = (first + m + row < rows)[:, None] & (column < columns)[None, :]
        h = tl.load(h_ptr + at, mask=inside, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
        part, slope = _gate(h, TANH)
        grad = grad * (part + h * slope)
        tl.store(out_ptr + at, grad.to(out_ptr.dtype.element_ty), mask=inside)
        total += grad
    tl.store(sums_ptr + tl.program_id(1) * columns + column, tl.sum(total, 0), mask=column < columns)
