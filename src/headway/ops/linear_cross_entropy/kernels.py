"""Softmax, cross-entropy and its gradient in Triton: two passes over each row, the second from the cache."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _logits(row_ptr, bias_ptr, at, columns, HAS_BIAS: tl.constexpr):
    """Logits of one row in float32 in powers of two, z·log₂e; -∞ past the vocabulary."""
    z = tl.load(row_ptr + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    if HAS_BIAS:
        z += tl.load(bias_ptr + at, mask=at < columns, other=0.0).to(tl.float32)
    return z * 1.4426950408889634


@triton.jit
def softmax_gradient(logits_ptr, bias_ptr, targets_ptr, losses_ptr, columns, stride, smoothing,
                     HAS_BIAS: tl.constexpr, SMOOTHED: tl.constexpr, WANTED: tl.constexpr,
                     LANES: tl.constexpr, EACH: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """Loss of one row, and p - y over its logits; zeros from `columns` to `stride`, and for a negative target.

    Each of LANES threads takes EACH neighbouring columns at a time and keeps a maximum and a sum of its own, so that
    threads need not wait for each other before the end of the row.
    """
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * stride
    target = tl.load(targets_ptr + row)
    # Read before any thread may have overwritten it: the reductions below wait for all threads.
    wanted_logit = tl.load(row_ptr + tl.maximum(target, 0)).to(tl.float32)
    if HAS_BIAS:
        wanted_logit += tl.load(bias_ptr + tl.maximum(target, 0)).to(tl.float32)
    lane = tl.arange(0, LANES)[:, None] * EACH + tl.arange(0, EACH)[None, :]
    # Finite, as the difference of two infinities is NaN; a lane without any column ends with a sum of 0.
    largest, sums, plain = (
        tl.full([LANES], -1e30, tl.float32),
        tl.zeros([LANES], tl.float32),
        tl.zeros([LANES], tl.float32),
    )
    for first in tl.range(0, columns, LANES * EACH, num_stages=STAGES):
        z = _logits(row_ptr, bias_ptr, first + lane, columns, HAS_BIAS)
        higher = tl.maximum(largest, tl.max(z, 1))
        sums = sums * tl.exp2(largest - higher) + tl.sum(tl.exp2(z - higher[:, None]), 1)
        largest = higher
        if SMOOTHED:
            plain += tl.sum(tl.where(first + lane < columns, z, 0.0), 1)
    highest = tl.max(largest, 0)
    normaliser = tl.log2(tl.sum(sums * tl.exp2(largest - highest), 0)) + highest
    loss = 0.6931471805599453 * normaliser - (1.0 - smoothing) * wanted_logit
    if SMOOTHED:
        loss -= 0.6931471805599453 * smoothing / columns * tl.sum(plain, 0)
    real = target >= 0
    tl.store(losses_ptr + row, tl.where(real, loss, 0.0))
    if WANTED:
        # Backwards: what was read last is still in the cache.
        blocks = tl.cdiv(stride, LANES * EACH)
        for n in tl.range(0, blocks, num_stages=STAGES):
            at = (blocks - 1 - n) * LANES * EACH + lane
            gradient = tl.exp2(_logits(row_ptr, bias_ptr, at, columns, HAS_BIAS) - normaliser)
            if SMOOTHED:
                gradient -= smoothing / columns
            gradient = tl.where(at == target, gradient - (1.0 - smoothing), gradient)
            gradient = tl.where(real & (at < columns), gradient, 0.0)
            tl.store(row_ptr + at, gradient.to(logits_ptr.dtype.element_ty), mask=at < stride)
