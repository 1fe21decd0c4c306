"""torch's scaled_dot_product_attention on its cuDNN back end: the fastest plain attention on a Hopper GPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from headway.ops.kernels import sdpa
from headway.ops.kernels.base import Call, capability

STEP = 128  # it makes a plan for each shape it meets, at some expense: lengths that come back are multiples of this
SHORTEST = 2048
WIDTHS = (64, 128)


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa.run(call)


def refuses(call: Call) -> str | None:
    """What cuDNN's fused attention is not, or is not known to be right for."""
    if not call.q.is_cuda:
        return f"cudnn needs a CUDA GPU, q is on {call.q.device.type}"
    if call.q.dtype not in (torch.bfloat16, torch.float16):
        return f"cudnn has no {str(call.q.dtype).removeprefix('torch.')}, only bfloat16 and float16"
    if call.bias is not None or call.dropout:
        return "cudnn takes neither a bias nor dropout here; use kernel='sdpa'"
    if call.mask is not None and not sdpa.is_causal(call.mask, call.queries, call.keys):
        # The mask's name alone: to print its tensors would wait for the device, whenever `auto` asks.
        got = f"{type(call.mask).__name__} of {call.queries} queries and {call.keys} keys"
        return f"cudnn takes no mask here but Causal() of a square, got {got}"
    if call.q.shape[-1] not in WIDTHS or call.v.shape[-1] != call.q.shape[-1]:
        return f"cudnn takes heads of {' or '.join(map(str, WIDTHS))} here, q has {call.q.shape[-1]}"
    return None


def pays(call: Call) -> bool:
    """Is it right for this call, on a GPU it is made for, for lengths long enough and likely to come back?"""
    lengths = (call.queries, call.keys)
    fits = call.q.is_cuda and all(n >= SHORTEST and n % STEP == 0 for n in lengths)
    return fits and capability() >= 90 and refuses(call) is None
