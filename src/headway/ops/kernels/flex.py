"""FlexAttention: any mask and bias compiled into one fused kernel, blocks that are masked away never computed."""

from __future__ import annotations

import functools
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from headway.errors import AdviceWarning
from headway.ops.kernels import blocks, sdpa
from headway.ops.kernels.base import Call, derives_forwards
from headway.ops.mask_structure import shape
from headway.ops.masks import Mask


def compiler_missing(device: str) -> str | None:
    """Why FlexAttention cannot be compiled for this device, or None."""
    if device == "cuda":
        from torch.utils._triton import has_triton

        return None if has_triton() else "triton is not installed"
    return None if shutil.which("g++") or shutil.which("clang++") else "no C++ compiler (g++) is installed"


@functools.cache
def _advise(reason: str) -> None:
    warnings.warn(
        f"flex steps aside for sdpa: {reason}; install it, or ask for kernel='sdpa' to silence this",
        AdviceWarning,
        stacklevel=2,
    )


@functools.cache
def _compiled() -> Callable[..., Any]:
    return torch.compile(flex_attention)  # lengths and offsets that vary become dynamic, not a compilation each


def _block_mask(
    mask: Mask, rows: int | None, queries: int, keys: int, device: torch.device, inference: bool
) -> BlockMask:
    """`inference` is whether inference mode is on: autograd cannot save what was made under it."""

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:  # torch wants a function, not a method
        return mask.allowed(b, h, i, j)

    if shape(mask, mask.heads).finite:
        return blocks.block_mask(mask, allowed, rows or 1, mask.heads, queries, keys, device)
    heads = mask.heads if mask.heads > 1 else None
    return create_block_mask(allowed, rows, heads, queries, keys, device=str(device))


# The structure of a mask without tensors says everything: its BlockMask is made once per size.
_shared_block_mask = functools.lru_cache(maxsize=64)(_block_mask)


def block_mask(call: Call) -> BlockMask | None:
    """The mask as FlexAttention takes it."""
    if call.mask is None:
        return None
    size = (call.queries, call.keys, call.q.device, torch.is_inference_mode_enabled())
    if not call.mask.tensors:
        return _shared_block_mask(call.mask, None, *size)
    mask = call.mask
    rows = call.rows if any(tensor.ndim for tensor in mask.tensors) else None  # 0-d data is the same for every row
    return mask.once(("block", *size), lambda: _block_mask(mask, rows, *size))


def run(call: Call, *, compile: bool = True) -> Tensor:
    """(B, H, T, W); with `compile=False` torch's own unfused form, which keeps every score in memory."""
    bias = call.bias

    def add_bias(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score if bias is None else score + bias.term(b, h, i, j).to(score.dtype)

    arguments: dict[str, Any] = {
        "score_mod": None if bias is None else add_bias,
        "block_mask": block_mask(call),
        "scale": call.scale,
        "enable_gqa": call.grouped,
    }
    if not compile or torch.compiler.is_compiling():
        with warnings.catch_warnings():  # torch warns that the unfused form is slow: here it was asked for
            warnings.simplefilter("ignore")
            out: Tensor = flex_attention(call.q, call.k, call.v, **arguments)
        return out
    missing = compiler_missing(call.q.device.type)
    if missing is None:
        try:
            out = _compiled()(call.q, call.k, call.v, **arguments)
            return out
        except torch._dynamo.exc.BackendCompilerFailed as failure:
            missing = f"compiling it failed ({str(failure).splitlines()[0]})"
    _advise(missing)
    return sdpa.run(call)


def refuses(call: Call) -> str | None:
    """Dropout anywhere, gradients on a CPU: FlexAttention has neither."""
    if call.dropout:
        return "flex has no dropout; use kernel='sdpa' or dropout=0"
    if derives_forwards():
        return "flex has no derivatives forwards"
    gradient = call.needs_gradient or (call.bias is not None and call.bias.needs_gradient)
    if call.q.device.type == "cpu" and gradient:
        return "flex has no backward pass on a CPU; use kernel='sdpa' or 'banded', or torch.no_grad()"
    return None
