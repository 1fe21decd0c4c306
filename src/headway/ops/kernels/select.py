"""Which kernel `auto` takes: the fastest that is right, by device, mask and size (`headway bench flash`)."""

from __future__ import annotations

from headway.ops.kernels import cudnn, flex
from headway.ops.kernels import decode as few
from headway.ops.kernels import triton_flash as flash
from headway.ops.kernels import triton_small as short
from headway.ops.kernels.base import Call, derives_forwards
from headway.ops.kernels.sdpa import is_causal
from headway.ops.mask_structure import Picked, shape

NARROW = 4  # keys for each one in the window, from which it pays to leave out the rest
SHORT = 1024  # queries, below which a dense mask costs little and Triton's launch much


def choose(call: Call) -> str:
    """The kernel `auto` takes for this call."""
    if not call.queries or not call.keys or derives_forwards():  # forwards most others have no derivatives
        return "reference"
    return _on_gpu(call) if call.q.is_cuda else _on_cpu(call)


def _on_cpu(call: Call) -> str:
    if call.queries <= few.MOST and call.q.device.type == "cpu" and not (call.needs_gradient or call.dropout):
        return "few"
    return "banded" if narrow(call) else "sdpa"


def narrow(call: Call) -> bool:
    """Does the mask leave each query a window that is small beside the keys there are?"""
    if call.mask is None or call.queries == 1:
        return False
    # Strips cost about twice the window per query; a dense kernel costs every key but is fused.
    form = shape(call.mask, call.heads)
    return form.finite and NARROW * form.width <= call.keys


def _on_gpu(call: Call) -> str:
    if isinstance(call.mask, Picked) and few.pays(call):
        return "few"
    if call.q.element_size() != 2:  # in 32 bits flash has no tensor cores, and flex multiplies in tf32
        return "banded" if narrow(call) else "sdpa"
    if short.pays(call):
        return "short"
    if cudnn.pays(call):
        return "cudnn"
    window = narrow(call)
    dense = call.bias is not None or not (call.mask is None or is_causal(call.mask, call.queries, call.keys))
    if (window or (dense and call.queries >= SHORT)) and flash.capable(call) and flash.refuses(call) is None:
        return "flash"  # torch's own kernels would have to be shown every pair
    if window:
        return "flex" if _flex_is_worth_it(call) else "banded"
    return "sdpa"


def _flex_is_worth_it(call: Call) -> bool:
    """With heads wide enough for it, where it can be compiled."""
    return call.q.shape[-1] >= 16 and flex.refuses(call) is None and flex.compiler_missing("cuda") is None
