"""SDPA on its cuDNN back end: on Hopper the fastest kernel for attention without a mask, or with a causal one."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from headway.ops.kernels import sdpa
from headway.ops.kernels.base import AttentionInputs, capability

LENGTH_MULTIPLE = 128  # cuDNN builds an expensive plan per shape; lengths that recur are usually multiples of this
MIN_LENGTH = 2048
HEAD_WIDTHS = (64, 128)


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa.run(inputs)


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """Why these inputs are not supported by cuDNN's fused attention, or were not tested on it; None if they are."""
    if not inputs.q.is_cuda:
        return f"cudnn needs a CUDA GPU, q is on {inputs.q.device.type}"
    if inputs.q.dtype not in (torch.bfloat16, torch.float16):
        return f"cudnn does not support {str(inputs.q.dtype).removeprefix('torch.')}, only bfloat16 and float16"

    if inputs.bias is not None or inputs.dropout:
        return "cudnn supports neither bias nor dropout here; use kernel='sdpa'"
    if inputs.mask is not None and not sdpa.is_causal(inputs.mask, inputs.queries, inputs.keys):
        # Only the name of the mask: printing its tensors would synchronise, whenever `auto` asks.
        got = f"{type(inputs.mask).__name__} of {inputs.queries} queries and {inputs.keys} keys"
        return f"cudnn supports only Causal() with as many queries as keys here, got {got}"
    if inputs.q.shape[-1] not in HEAD_WIDTHS or inputs.v.shape[-1] != inputs.q.shape[-1]:
        return f"cudnn supports head widths {' and '.join(map(str, HEAD_WIDTHS))} here, q has {inputs.q.shape[-1]}"
    return None


def is_faster_for(inputs: AttentionInputs) -> bool:
    """Whether it supports the inputs, on Hopper or newer, and the lengths are long and likely to recur."""
    lengths = (inputs.queries, inputs.keys)
    fits = inputs.q.is_cuda and all(n >= MIN_LENGTH and n % LENGTH_MULTIPLE == 0 for n in lengths)
    return fits and capability() >= 90 and unsupported_reason(inputs) is None
