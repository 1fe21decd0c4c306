"""Attention over short sequences on a GPU: one Triton program per head, which holds all keys of it.

Kernels for long sequences spend most of the time of a short one on saved statistics and on tiles that are mostly empty.
With narrow heads and some sixty tokens, as in a vision transformer for small images, that is a third of a training step
(measured in docs/flash.md).
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from headway._compile import triton_missing
from headway.ops.kernels.base import AttentionInputs, capability, in_forward_ad
from headway.ops.masks import NotSelf

DTYPES = (torch.bfloat16, torch.float16, torch.float32)  # the sums are in float32
MAX_TOKENS = 128
HEAD_WIDTHS = (16, 32, 64)
FASTER_TOKENS = (16, 128)  # from and to, with heads of 16: where it was faster than torch's kernels on an H200


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    from headway.ops.kernels.triton_small.launch import small_attention  # registering its operators takes time

    out: Tensor = small_attention(inputs.q, inputs.k, inputs.v, inputs.scale, inputs.mask is not None)
    return out


def is_faster_for(inputs: AttentionInputs) -> bool:
    """Whether it supports the inputs, was measured to be faster at their size on an H200, and the GPU is that new."""
    least, most = FASTER_TOKENS
    narrow = inputs.q.is_cuda and inputs.q.element_size() == 2 and inputs.q.shape[-1] == 16
    fits = narrow and least <= inputs.queries <= most
    return fits and capability() >= 90 and unsupported_reason(inputs) is None


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """Why these inputs are not supported, or None."""
    if missing := triton_missing():
        return missing
    if inputs.q.dtype not in DTYPES:
        dtype = str(inputs.q.dtype).removeprefix("torch.")
        return f"short does not support {dtype}, only bfloat16, float16 and float32"
    if inputs.dropout or inputs.bias is not None or in_forward_ad():
        return "dropout, bias and forward-mode AD are not supported"
    if inputs.mask is not None and (not isinstance(inputs.mask, NotSelf) or not _at_zero(inputs.mask)):
        return f"the only supported mask is NotSelf() without an offset, got {type(inputs.mask).__name__}"
    if inputs.grouped or inputs.q.shape != inputs.k.shape or inputs.k.shape != inputs.v.shape:
        return "q, k and v must have the same shape"
    if not 2 <= inputs.queries <= MAX_TOKENS or inputs.q.shape[-1] not in HEAD_WIDTHS:
        widths = ", ".join(map(str, HEAD_WIDTHS))
        return f"supported are 2 to {MAX_TOKENS} tokens and head widths {widths}, q has shape {tuple(inputs.q.shape)}"
    if not inputs.q.is_cuda and not interpreted():
        return f"short needs a CUDA GPU, q is on {inputs.q.device.type}"
    return None


def interpreted() -> bool:
    """Whether the kernels run in Triton's interpreter, on a CPU; False if Triton was not imported yet."""
    if "triton" not in sys.modules:
        return False
    from headway.ops.kernels.triton_small.launch import interpreted

    return interpreted()


def _at_zero(mask: NotSelf) -> bool:
    return isinstance(mask.offset, int) and mask.offset == 0
