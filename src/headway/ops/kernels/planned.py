"""Attention on fake tensors that stand for a GPU's (headway.ops.planned): the operators of the kernels used there.

Their output and the logarithms of the sums (B, H, T) are allocated; no matrix of scores is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway.ops.kernels import banded
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.sdpa import dense, hides_nothing, is_causal
from headway.ops.kernels.select import is_narrow_band

aten = torch.ops.aten


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    if is_narrow_band(inputs):
        return banded.run(inputs)
    k, v = inputs.repeat_kv(inputs.k), inputs.repeat_kv(inputs.v)
    causal = is_causal(inputs.mask, inputs.queries, inputs.keys)
    if inputs.bias is None and (causal or hides_nothing(inputs.mask, inputs.keys)):
        out: Tensor = aten._scaled_dot_product_flash_attention(
            inputs.q, k, v, inputs.dropout, causal, scale=inputs.scale
        )[0]
        return out
    added = _added(inputs)
    out = aten._scaled_dot_product_efficient_attention(
        inputs.q, k, v, added, inputs.needs_gradient, inputs.dropout, scale=inputs.scale
    )[0]
    return out


def _added(inputs: AttentionInputs) -> Tensor:
    """Mask and bias as numbers that are added to the scores (B, H, T, S)."""
    queries, keys, device = inputs.queries, inputs.keys, inputs.q.device
    added = inputs.q.new_zeros(1, 1, 1, 1)
    if inputs.bias is not None:
        added = inputs.bias.dense(inputs.rows, inputs.heads, queries, keys, device).to(inputs.q.dtype)
    if inputs.mask is not None:
        added = added.masked_fill(~dense(inputs.mask, queries, keys, device)[0], float("-inf"))
    return added.expand(inputs.rows, inputs.heads, queries, keys)
