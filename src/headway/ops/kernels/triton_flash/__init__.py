"""FlashAttention on a GPU: the algorithm of `flash_torch` in Triton, for masks that are a band.

Besides the output it returns L, the log of each softmax's denominator, which is differentiable: attention over two sets
of keys is then the mean of two outputs weighted by e^L. The global keys of a Longformer mask are gathered from the
sequence and take part in the same softmax; its few global queries attend to all keys in a second pass.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headway._compile import triton_missing
from headway.ops.biases import Alibi
from headway.ops.kernels.banded import attend_everywhere
from headway.ops.kernels.base import AttentionInputs, capability, in_forward_ad
from headway.ops.mask_structure import BandMask, as_band, marked_keys, marked_queries
from headway.ops.masks import Global

MAX_HEAD_WIDTH = 128
CAPABILITIES = (80, 90, 100, 103)  # GPUs with the 161 KiB of shared memory per program that the tiles need
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def attend_with_lse(inputs: AttentionInputs, band: BandMask) -> tuple[Tensor, Tensor]:
    """(B, H, T, W) and L (B, H, T), -inf for a query without an allowed key."""
    from headway.ops.kernels.triton_flash.launch import flash, launch  # registering its operators takes time

    slopes, offset = None, 0
    if isinstance(inputs.bias, Alibi):
        slopes = inputs.bias.slopes
        assert isinstance(inputs.bias.offset, int)
        offset = inputs.bias.offset
    tensors = (slopes, band.lengths, *_global_indices(band.global_tokens), _seed(inputs))
    # The custom operator is needed for gradients and torch.compile; its overhead equals the time of a small kernel.
    plain = type(inputs.q) is Tensor and not (inputs.needs_gradient or torch.compiler.is_compiling())
    out, lse = (launch if plain else flash)(
        inputs.q, inputs.k, inputs.v, *tensors, band.low, band.high, offset, inputs.scale, inputs.dropout
    )
    return out, lse


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    band = as_band(inputs.mask)
    assert isinstance(band, BandMask)
    out, _ = attend_with_lse(inputs, band)
    if band.global_tokens is None or not band.global_tokens.seeing:
        return out
    rows = marked_queries(band.global_tokens, inputs.queries)
    return rows.scatter_(out, attend_everywhere(inputs, rows)) if rows.count else out


def _seed(inputs: AttentionInputs) -> Tensor | None:
    """(1,): the seed of dropout, drawn on q's device, so that nothing synchronises."""
    if not inputs.dropout:
        return None
    return torch.randint(2**31 - 1, (1,), device=inputs.q.device, generator=inputs.generator)


def _global_indices(tokens: Global | None) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """(B, C) twice: the positions of the global keys, padded with -1, and padded with any key."""
    if tokens is None or not marked_keys(tokens).count:
        return None, None
    marked = marked_keys(tokens)
    return marked.padded_index, marked.index


def is_measured_on(inputs: AttentionInputs) -> bool:
    """Whether the inputs are on a GPU on which these kernels were measured: Hopper or newer."""
    return inputs.q.is_cuda and capability() >= 90


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """Masks that are not a band, biases except ALiBi, wide heads, forward-mode AD, and devices without Triton."""
    if inputs.q.dtype not in DTYPES:
        dtype = str(inputs.q.dtype).removeprefix("torch.")
        return f"flash does not support {dtype}, only bfloat16, float16 and float32"
    if max(inputs.q.shape[-1], inputs.v.shape[-1]) > MAX_HEAD_WIDTH:
        widths = f"q is {inputs.q.shape[-1]} and v {inputs.v.shape[-1]} wide"
        return f"flash supports heads up to {MAX_HEAD_WIDTH} wide, {widths}"
    if not (inputs.scale >= 0 and math.isfinite(inputs.scale)):
        return f"flash needs a finite scale of at least 0, got {inputs.scale}"
    if inputs.bias is not None:
        if not isinstance(inputs.bias, Alibi):
            return f"flash supports no bias except Alibi, got {type(inputs.bias).__name__}"
        if not isinstance(inputs.bias.offset, int):
            return "flash needs Alibi.offset to be a number, got a tensor"
        if inputs.bias.needs_gradient:
            return "flash does not compute gradients of Alibi.slopes"
    if in_forward_ad():
        return "flash does not support forward-mode AD (torch.func.jvp)"
    found = as_band(inputs.mask)
    return found if isinstance(found, str) else _unsupported_device(inputs)


def _unsupported_device(inputs: AttentionInputs) -> str | None:
    """Why the kernels cannot run on this device, or None; checked last, since it imports Triton."""
    if missing := triton_missing():
        return missing
    from headway.ops.kernels.triton_flash.launch import interpreted

    if not (inputs.q.is_cuda or interpreted()):
        return f"flash needs a CUDA GPU, q is on {inputs.q.device.type} (or Triton's interpreter: TRITON_INTERPRET=1)"
    if inputs.q.is_cuda and capability() not in CAPABILITIES:
        return f"flash needs a data-centre GPU (A100, H100 or newer), compute capability is {capability() / 10}"
    return None
