"""The Triton kernels for short sequences as custom operators of torch, with gradients."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

MAX_TILE_QUERIES = 32


@functools.cache
def _kernels() -> Any:
    """The Triton kernels, imported at first use."""
    return import_module("headway.ops.kernels.triton_small.kernels")


def interpreted() -> bool:
    """Whether the kernels run in Triton's interpreter, on a CPU."""
    return isinstance(_kernels().forward, import_module("triton.runtime.interpreter").InterpretedFunction)


def _constants(q: Tensor, hide_self: bool) -> dict[str, Any]:
    """The compile-time arguments of a kernel."""
    tokens, width = q.shape[-2:]
    keys = max(16, 1 << (tokens - 1).bit_length())
    queries = min(MAX_TILE_QUERIES, keys)
    tiles = -(-tokens // queries)
    return {
        "E": width,
        "S": keys,
        "M": queries,
        "TILES": tiles,
        "HIDE_SELF": hide_self,
        "num_warps": width // 8,  # the gradients of wide heads need the registers of more warps
        "num_stages": 1,
    }


def _strides(*tensors: Tensor) -> tuple[int, ...]:
    """The strides of rows, heads and tokens; features are contiguous."""
    return tuple(step for x in tensors for step in x.stride()[:3])


def _contiguous_features(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _empty_tokens_first(x_BHTE: Tensor) -> Tensor:
    """An uninitialised tensor like x, stored as (B, T, H, E): merging the heads is then a view."""
    rows, heads, tokens, width = x_BHTE.shape
    return x_BHTE.new_empty(rows, tokens, heads, width).transpose(1, 2)


@torch.library.custom_op("headway::short_attend", mutates_args=())
def small_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, hide_self: bool) -> Tensor:
    """(B, H, T, E); `hide_self` masks the key of each token itself."""
    q, k, v = (_contiguous_features(x) for x in (q, k, v))
    out = _empty_tokens_first(q)
    rows, heads, tokens, _ = q.shape
    _kernels().forward[(rows * heads,)](
        q, k, v, out, *_strides(q, k, v, out), heads, tokens, scale, **_constants(q, hide_self)
    )
    return out


@torch.library.custom_op("headway::short_attend_backward", mutates_args=())
def small_attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, hide_self: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV."""
    grad, q, k, v = (_contiguous_features(x) for x in (grad, q, k, v))
    grads = _empty_tokens_first(q), _empty_tokens_first(k), _empty_tokens_first(v)
    rows, heads, tokens, _ = q.shape
    _kernels().backward[(rows * heads,)](
        q, k, v, grad, *grads, *_strides(q, k, v, grad, grads[0]), heads, tokens, scale, **_constants(q, hide_self)
    )
    return grads


@small_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, scale: float, hide_self: bool) -> Tensor:
    return _empty_tokens_first(q)


@small_attention_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, hide_self: bool) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_tokens_first(q), _empty_tokens_first(k), _empty_tokens_first(v)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.scale, ctx.hide_self = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *small_attention_backward(grad, *ctx.saved_tensors, ctx.scale, ctx.hide_self), None, None


small_attention.register_autograd(_backward, setup_context=_setup_context)
