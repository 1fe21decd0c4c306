"""Attention as the formula says, with every score in memory. It returns weights and defines what correct means."""

from __future__ import annotations

import torch
from torch import Tensor

from headway.ops.kernels.base import Call


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the last dimension where `allowed`; a row that may look nowhere gives zeros, never NaN."""
    alive = allowed.any(-1, keepdim=True)
    # An empty row is filled with a number before the softmax: -inf alone would make its gradient NaN.
    scores = scores.masked_fill(~allowed, float("-inf")).masked_fill(~alive, 0.0)
    return scores.softmax(-1).masked_fill(~alive, 0.0)


def weights(call: Call) -> Tensor:
    """softmax(scale·q·kᵀ + bias) where the mask allows: (B, H, T, S), at least float32."""
    exact = torch.promote_types(call.q.dtype, torch.float32)
    scores = (call.q.to(exact) * call.scale) @ call.per_head(call.k).to(exact).mT
    if call.bias is not None:
        scores = scores + call.bias.dense(call.rows, call.heads, call.queries, call.keys, scores.device).to(exact)
    if call.mask is None:
        return scores.softmax(-1)
    return masked_softmax(scores, call.mask.dense(call.queries, call.keys, scores.device))


def drop(weights: Tensor, call: Call) -> Tensor:
    """Dropout on attention weights, drawn from the call's own generator."""
    if not call.dropout:
        return weights
    keep = torch.empty_like(weights).bernoulli_(1 - call.dropout, generator=call.generator)
    return weights * keep / (1 - call.dropout)


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    return drop(weights(call), call).to(call.v.dtype) @ call.per_head(call.v)


def refuses(call: Call) -> str | None:
    """Nothing."""
    return None
