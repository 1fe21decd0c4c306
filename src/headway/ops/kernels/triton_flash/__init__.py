"""FlashAttention on a GPU: `tiled`'s algorithm in Triton, for masks that are a band.

Beside the output comes the logarithm of each softmax's denominator, with a gradient of its own: attention over two sets
of keys is then the mean of two outputs, weighted by their denominators. Longformer's global keys are met in the same
softmax, picked out of the text; its global queries, few, see everything in a second pass.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headway._compile import triton_missing
from headway.ops.biases import Alibi
from headway.ops.kernels.banded import everywhere
from headway.ops.kernels.base import Call, capability, derives_forwards
from headway.ops.mask_structure import marked_keys, marked_queries
from headway.ops.masks import Global
from headway.ops.stripes import Stripe, stripe

WIDEST = 128  # head width
ROOMY = (80, 90, 100, 103)  # generations that give a program the 161 KiB the tiles take
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def attend_with_lse(call: Call, band: Stripe) -> tuple[Tensor, Tensor]:
    """(B, H, T, W) and (B, H, T), the logarithm of the denominators: -inf where a query may look nowhere."""
    from headway.ops.kernels.triton_flash.launch import flash, launch  # its operators take a while to register

    slopes, offset = None, 0
    if isinstance(call.bias, Alibi):
        slopes = call.bias.slopes
        assert isinstance(call.bias.offset, int)
        offset = call.bias.offset
    tensors = (slopes, band.lengths, *_places(band.token), _seed(call))
    # An operator is for gradients, and for torch.compile; without either it costs as long as a small kernel runs.
    plain = type(call.q) is Tensor and not (call.needs_gradient or torch.compiler.is_compiling())
    out, lse = (launch if plain else flash)(
        call.q, call.k, call.v, *tensors, band.low, band.high, offset, call.scale, call.dropout
    )
    return out, lse


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    band = stripe(call.mask)
    assert isinstance(band, Stripe)
    out, _ = attend_with_lse(call, band)
    if band.token is None or not band.token.seeing:
        return out
    rows = marked_queries(band.token, call.queries)
    return rows.put_into(out, everywhere(call, rows)) if rows.count else out


def _seed(call: Call) -> Tensor | None:
    """(1,), drawn where q is: nobody waits for it."""
    if not call.dropout:
        return None
    return torch.randint(2**31 - 1, (1,), device=call.q.device, generator=call.generator)


def _places(token: Global | None) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """(B, C) twice: where the keys stand that are seen from everywhere, and, where a row has fewer, -1 or any key."""
    if token is None or not marked_keys(token).count:
        return None, None
    marked = marked_keys(token)
    return marked.found, marked.index


def capable(call: Call) -> bool:
    """Is the GPU one these kernels were measured on?"""
    return call.q.is_cuda and capability() >= 90


def refuses(call: Call) -> str | None:
    """What is no band, biases other than ALiBi, wide heads, and devices without Triton."""
    if call.q.dtype not in DTYPES:
        return f"flash has no {str(call.q.dtype).removeprefix('torch.')}, only bfloat16, float16 and float32"
    if max(call.q.shape[-1], call.v.shape[-1]) > WIDEST:
        return f"flash has heads up to {WIDEST} wide, q is {call.q.shape[-1]} and v {call.v.shape[-1]}"
    if not (call.scale >= 0 and math.isfinite(call.scale)):
        return f"flash needs a scale of 0 or more, got {call.scale}"
    if call.bias is not None:
        if not isinstance(call.bias, Alibi):
            return f"flash has no bias but Alibi, got {type(call.bias).__name__}"
        if not isinstance(call.bias.offset, int):
            return "flash needs Alibi.offset to be one number, got a tensor"
        if call.bias.needs_gradient:
            return "flash has no gradient for Alibi.slopes"
    if derives_forwards():
        return "flash has no derivatives forwards"
    found = stripe(call.mask)
    return found if isinstance(found, str) else _no_place(call)


def _no_place(call: Call) -> str | None:
    """Why the kernels cannot run here; asked last, since it imports Triton."""
    if missing := triton_missing():
        return missing
    from headway.ops.kernels.triton_flash.launch import interpreted

    if not (call.q.is_cuda or interpreted()):
        return f"flash needs a CUDA GPU, q is on {call.q.device.type} (or Triton's interpreter: TRITON_INTERPRET=1)"
    if call.q.is_cuda and capability() not in ROOMY:
        return f"flash needs a data centre's GPU (A100, H100 or newer) for its tiles, this one is {capability() / 10}"
    return None
