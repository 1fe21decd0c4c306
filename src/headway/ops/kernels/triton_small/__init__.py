"""Attention over a short sequence on a GPU: a whole head fits one program, so that no row of weights is ever divided.

Fused kernels for long sequences spend most of a short one on what they keep for the backward pass, and on tiles that
are mostly empty. With narrow heads and some sixty tokens, as a vision transformer for small images has them, that is a
third of a training step (docs/flash.md has what this saves).
"""

from __future__ import annotations

import sys

from torch import Tensor

from headway._compile import triton_missing
from headway.ops.kernels.base import Call, capability, derives_forwards
from headway.ops.masks import NotSelf

LONGEST = 128  # tokens
WIDTHS = (16, 32, 64)  # of a head
MEASURED = (16, 128)  # tokens between which, with heads of 16, it was faster than what torch has on an H200


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    from headway.ops.kernels.triton_small.launch import attend  # its operators take a while to register

    out: Tensor = attend(call.q, call.k, call.v, call.scale, call.mask is not None)
    return out


def pays(call: Call) -> bool:
    """Is it right for this call, of a size at which it was faster on an H200, and the GPU no older?"""
    least, most = MEASURED
    fits = call.q.is_cuda and call.q.element_size() == 2 and call.q.shape[-1] == 16 and least <= call.queries <= most
    return fits and capability() >= 90 and refuses(call) is None


def refuses(call: Call) -> str | None:
    """Why it cannot do a call, or None."""
    if missing := triton_missing():
        return missing
    if call.dropout or call.bias is not None or derives_forwards():
        return "it has neither dropout nor a bias, nor derivatives forwards"
    if call.mask is not None and (not isinstance(call.mask, NotSelf) or not _at_zero(call.mask)):
        return f"its only mask is NotSelf, not {type(call.mask).__name__}"
    if call.grouped or call.q.shape != call.k.shape or call.k.shape != call.v.shape:
        return "q, k and v must have one shape"
    if not 2 <= call.queries <= LONGEST or call.q.shape[-1] not in WIDTHS:
        return f"it is for 2 to {LONGEST} tokens and heads of {', '.join(map(str, WIDTHS))}, not {tuple(call.q.shape)}"
    if not call.q.is_cuda and not interpreted():
        return "it is for a GPU"
    return None


def interpreted() -> bool:
    """Do the kernels run in Triton's interpreter, on a CPU? Nobody asked for it where Triton is not even loaded."""
    if "triton" not in sys.modules:
        return False
    from headway.ops.kernels.triton_small.launch import interpreted

    return interpreted()


def _at_zero(mask: NotSelf) -> bool:
    return isinstance(mask.offset, int) and mask.offset == 0
