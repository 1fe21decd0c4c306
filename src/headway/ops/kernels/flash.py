"""FlashAttention on a GPU: `tiled`'s algorithm in Triton, for masks that are a band.

Beside the output comes the logarithm of each softmax's denominator, with a gradient of its own: attention over two sets
of keys is then the mean of two outputs, weighted by their denominators. Longformer's global tokens are such a set.
"""

from __future__ import annotations

import functools
import importlib.util
import math

import torch
from torch import Tensor

from headway.ops.bands import Marked, marked_keys, marked_queries
from headway.ops.biases import Alibi
from headway.ops.kernels.banded import everywhere
from headway.ops.kernels.call import Call, capability
from headway.ops.kernels.flash_launch import flash, interpreted
from headway.ops.masks import index_grid
from headway.ops.stripes import Stripe, stripe

WIDEST = 128  # head width
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@torch.compiler.assume_constant_result
def triton_missing() -> str | None:
    """Why there are no Triton kernels here, or None."""
    return None if _found("triton") else "Triton is not installed"


@functools.cache
def _found(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def attend_with_lse(call: Call, band: Stripe) -> tuple[Tensor, Tensor]:
    """(B, H, T, W) and (B, H, T), the logarithm of the denominators: -inf where a query may look nowhere."""
    slopes, offset = None, 0
    if isinstance(call.bias, Alibi):
        slopes = call.bias.slopes
        assert isinstance(call.bias.offset, int)
        offset = call.bias.offset
    out, lse = flash(call.q, call.k, call.v, slopes, band.lengths, band.low, band.high, offset, call.scale)
    return out, lse


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    band = stripe(call.mask)
    assert isinstance(band, Stripe)
    out, lse = attend_with_lse(call, band)
    if band.token is None:
        return out
    columns = marked_keys(band.token)
    if columns.count:
        out = _with_columns(call, band, columns, out, lse)
    if not band.token.seeing:
        return out
    rows = marked_queries(band.token, call.queries)
    return rows.put(out, everywhere(call, rows)) if rows.count else out


def _with_columns(call: Call, band: Stripe, columns: Marked, out: Tensor, lse: Tensor) -> Tensor:
    """Global keys outside the band join those inside: each part counts by its denominator."""
    k, v = (columns.pick(call.per_head(x)) for x in (call.k, call.v))
    scores = call.scale * (call.q @ k.mT).float()
    b, h, i, _ = index_grid(call.rows, call.heads, call.queries, 1, call.q.device)
    j = columns.index[:, None, None]
    if call.bias is not None:
        scores = scores + call.bias.term(b, h, i, j).float()
    assert call.mask is not None
    apart = band.outside(i, j) & columns.real[:, None, None] & call.mask.allowed(b, h, i, j)
    scores = scores.masked_fill(~apart, float("-inf"))
    most = torch.maximum(lse, scores.amax(-1)).detach()
    most = most.masked_fill(most == float("-inf"), 0.0).unsqueeze(-1)  # a query that may look nowhere
    near, far = (lse.unsqueeze(-1) - most).exp(), (scores - most).exp()
    total = near + far.sum(-1, keepdim=True)
    total = total.masked_fill(total == 0, 1.0)
    return out * (near / total).to(out.dtype) + (far / total).to(v.dtype) @ v


def capable(call: Call) -> bool:
    """Is the GPU one these kernels were made for?"""
    return call.q.is_cuda and capability() >= (8, 0)


def refuses(call: Call) -> str | None:
    """What is no band, biases other than ALiBi, dropout, wide heads, and devices without Triton."""
    if reason := triton_missing():
        return reason
    if not (call.q.is_cuda or interpreted()):
        return f"flash needs a CUDA GPU, q is on {call.q.device.type} (or Triton's interpreter: TRITON_INTERPRET=1)"
    if call.q.dtype not in DTYPES:
        return f"flash has no {str(call.q.dtype).removeprefix('torch.')}, only bfloat16, float16 and float32"
    if max(call.q.shape[-1], call.v.shape[-1]) > WIDEST:
        return f"flash has heads up to {WIDEST} wide, q is {call.q.shape[-1]} and v {call.v.shape[-1]}"
    if call.dropout:
        return "flash has no dropout; use kernel='sdpa' or dropout=0"
    if not (call.scale >= 0 and math.isfinite(call.scale)):
        return f"flash needs a scale of 0 or more, got {call.scale}"
    if call.bias is not None:
        if not isinstance(call.bias, Alibi):
            return f"flash has no bias but Alibi, got {type(call.bias).__name__}"
        if not isinstance(call.bias.offset, int):
            return "flash needs Alibi.offset to be one number, got a tensor"
        if call.bias.needs_gradient:
            return "flash has no gradient for Alibi.slopes"
    found = stripe(call.mask)
    return found if isinstance(found, str) else None
