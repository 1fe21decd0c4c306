"""Attention by the formula, with all scores in memory. It defines what the other kernels have to compute."""

from __future__ import annotations

import torch
from torch import Tensor

from headway.ops.kernels.base import AttentionInputs


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the last dimension where `allowed`; zeros, never NaN, for a row without an allowed entry."""
    alive = allowed.any(-1, keepdim=True)
    # Fully masked rows get a finite number before the softmax: a row of -inf would have a gradient of NaN.
    scores = scores.masked_fill(~allowed, float("-inf")).masked_fill(~alive, 0.0)
    return scores.softmax(-1).masked_fill(~alive, 0.0)


def weights(inputs: AttentionInputs) -> Tensor:
    """softmax(scale·q·kᵀ + bias) where the mask allows: (B, H, T, S), at least float32."""
    exact = torch.promote_types(inputs.q.dtype, torch.float32)
    scores = (inputs.q.to(exact) * inputs.scale) @ inputs.repeat_kv(inputs.k).to(exact).mT
    if inputs.bias is not None:
        bias = inputs.bias.dense(inputs.rows, inputs.heads, inputs.queries, inputs.keys, scores.device)
        scores = scores + bias.to(exact)
    if inputs.mask is None:
        return scores.softmax(-1)
    return masked_softmax(scores, inputs.mask.dense(inputs.queries, inputs.keys, scores.device))


def drop(weights: Tensor, inputs: AttentionInputs) -> Tensor:
    """Dropout on attention weights, drawn from the generator of the inputs."""
    if not inputs.dropout:
        return weights
    keep = torch.empty_like(weights).bernoulli_(1 - inputs.dropout, generator=inputs.generator)
    return weights * keep / (1 - inputs.dropout)


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    return drop(weights(inputs), inputs).to(inputs.v.dtype) @ inputs.repeat_kv(inputs.v)


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """None: everything is supported."""
    return None
