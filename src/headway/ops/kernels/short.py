"""Attention over a short sequence on a GPU: a whole head fits one program, so that no row of weights is ever divided.

Fused kernels for long sequences spend most of a short one on what they keep for the backward pass, and on tiles that
are mostly empty. With narrow heads and some sixty tokens, as a vision transformer for small images has them, that is a
third of a training step (docs/flash.md has what this saves).
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from headway.ops.kernels.call import Call, capability
from headway.ops.masks import NotSelf

LONGEST = 128  # tokens
WIDTHS = (16, 32, 64)  # of a head
MEASURED = (16, 128)  # tokens between which, with heads of 16, it was faster than what torch has on an H200
QUERIES = 32  # in a tile: a warp for each sixteen, and more where heads are wide and their gradients need registers
TRITON = importlib.util.find_spec("triton") is not None


@functools.cache
def _kernels() -> Any:
    """The Triton code, imported when it is first needed."""
    return import_module("headway.ops.kernels.short_tiles")


def interpreted() -> bool:
    """Do the kernels run in Triton's interpreter, on a CPU? Nobody asked for it where Triton is not even loaded."""
    return "triton" in sys.modules and isinstance(
        _kernels().forward, import_module("triton.runtime.interpreter").InterpretedFunction
    )


def _constants(q: Tensor, apart: bool) -> dict[str, Any]:
    """What a kernel is compiled for."""
    tokens, width = q.shape[-2:]
    keys = max(16, 1 << (tokens - 1).bit_length())
    queries = min(QUERIES, keys)
    tiles = -(-tokens // queries)
    return {
        "E": width,
        "S": keys,
        "M": queries,
        "TILES": tiles,
        "APART": apart,
        "num_warps": width // 8,
        "num_stages": 1,
    }


def _strides(*tensors: Tensor) -> tuple[int, ...]:
    """Of rows, heads and tokens; features lie side by side."""
    return tuple(step for x in tensors for step in x.stride()[:3])


def _beside(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _blank(x_BHTE: Tensor) -> Tensor:
    """Room for the same, tokens outermost: joining the heads is then a view."""
    rows, heads, tokens, width = x_BHTE.shape
    return x_BHTE.new_empty(rows, tokens, heads, width).transpose(1, 2)


@torch.library.custom_op("headway::short_attend", mutates_args=())
def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float, apart: bool) -> Tensor:
    q, k, v = (_beside(x) for x in (q, k, v))
    out = _blank(q)
    rows, heads, tokens, _ = q.shape
    _kernels().forward[(rows * heads,)](
        q, k, v, out, *_strides(q, k, v, out), heads, tokens, scale, **_constants(q, apart)
    )
    return out


@torch.library.custom_op("headway::short_attend_backward", mutates_args=())
def _gradients(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, apart: bool
) -> tuple[Tensor, Tensor, Tensor]:
    grad, q, k, v = (_beside(x) for x in (grad, q, k, v))
    made = _blank(q), _blank(k), _blank(v)
    rows, heads, tokens, _ = q.shape
    _kernels().backward[(rows * heads,)](
        q, k, v, grad, *made, *_strides(q, k, v, grad, made[0]), heads, tokens, scale, **_constants(q, apart)
    )
    return made


@_attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, scale: float, apart: bool) -> Tensor:
    return _blank(q)


@_gradients.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, apart: bool) -> tuple[Tensor, Tensor, Tensor]:
    return _blank(q), _blank(k), _blank(v)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.scale, ctx.apart = inputs
    ctx.save_for_backward(*tensors)


def _back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_gradients(grad, *ctx.saved_tensors, ctx.scale, ctx.apart), None, None


_attend.register_autograd(_back, setup_context=_keep)


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    out: Tensor = _attend(call.q, call.k, call.v, call.scale, call.mask is not None)
    return out


def pays(call: Call) -> bool:
    """Is it right for this call, and of a size at which it was faster, on a GPU it was measured on?"""
    least, most = MEASURED
    fits = call.q.is_cuda and call.q.element_size() == 2 and call.q.shape[-1] == 16 and least <= call.queries <= most
    return fits and capability() >= (9, 0) and refuses(call) is None


def refuses(call: Call) -> str | None:
    """Why it cannot do a call, or None."""
    if not TRITON:
        return "Triton is not installed"
    if call.dropout or call.bias is not None:
        return "it has neither dropout nor a bias"
    if call.mask is not None and (not isinstance(call.mask, NotSelf) or not _at_zero(call.mask)):
        return f"its only mask is NotSelf, not {type(call.mask).__name__}"
    if call.grouped or call.q.shape != call.k.shape or call.k.shape != call.v.shape:
        return "q, k and v must have one shape"
    if not 2 <= call.queries <= LONGEST or call.q.shape[-1] not in WIDTHS:
        return f"it is for 2 to {LONGEST} tokens and heads of {', '.join(map(str, WIDTHS))}, not {tuple(call.q.shape)}"
    if not call.q.is_cuda and not interpreted():
        return "it is for a GPU"
    return None


def _at_zero(mask: NotSelf) -> bool:
    return isinstance(mask.offset, int) and mask.offset == 0
