"""The Triton kernels for a short sequence as operators of torch, with their gradients."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

QUERIES = 32  # in a tile: a warp for each sixteen, and more where heads are wide and their gradients need registers


@functools.cache
def _kernels() -> Any:
    """The Triton code, imported when it is first needed."""
    return import_module("headway.ops.kernels.triton_small.kernels")


def interpreted() -> bool:
    """Do the kernels run in Triton's interpreter, on a CPU?"""
    return isinstance(_kernels().forward, import_module("triton.runtime.interpreter").InterpretedFunction)


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
def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, apart: bool) -> Tensor:
    """(B, H, T, E); `apart` hides each token from itself."""
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


@attend.register_fake
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


attend.register_autograd(_back, setup_context=_keep)
