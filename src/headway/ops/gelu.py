"""A linear layer with GELU behind it, whose gradients need one pass where torch makes two.

Backwards, the gradient of GELU is written, and then read again to be summed for the layer's bias. For a wide layer over
many tokens that is a tenth of what its products take; here the sums are made on the way.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.kernels.call import capability
from headway.ops.kernels.flash import triton_missing

LEAST = 2**24  # numbers, below which launching costs more than reading them again


class Piece(NamedTuple):
    """What a program does: `rows` rows of `columns` columns, `together` rows at a time."""

    rows: int = 128
    together: int = 8
    columns: int = 256
    warps: int = 4


PIECE = Piece()


def linear_gelu(x: Tensor, weight_FD: Tensor, bias_F: Tensor) -> Tensor:
    """gelu(x·weightᵀ + bias): (…, D) -> (…, F)."""
    # The bias's gradient does not come by the layer's way, which would read the whole once more.
    out: Tensor = _Gelu.apply(F.linear(x, weight_FD, bias_F.detach()), bias_F)  # type: ignore[no-untyped-call]
    return out


def pays(x: Tensor, bias_F: Tensor) -> bool:
    """Are there gradients to be made, in 16 bits, of so many numbers that reading them twice costs time?"""
    if not (x.is_cuda and torch.is_grad_enabled() and bias_F.requires_grad):
        return False
    if x.numel() // x.shape[-1] * bias_F.shape[0] < LEAST or triton_missing() or capability() < (9, 0):
        return False
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
    return dtype in (torch.bfloat16, torch.float16)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, bias_F: Tensor) -> Tensor:
        ctx.save_for_backward(h, bias_F)
        return F.gelu(h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        made: tuple[Tensor, Tensor] = gelu_backward(grad, *ctx.saved_tensors)
        return made


@functools.cache
def _kernel() -> Any:
    """The Triton code, imported when it is first needed."""
    return import_module("headway.ops.gelu_tiles").backward


@torch.library.custom_op(
    "headway::gelu_backward", mutates_args=(), schema="(Tensor grad, Tensor h, Tensor bias) -> (Tensor, Tensor)"
)
def gelu_backward(grad: Tensor, h: Tensor, bias_F: Tensor) -> tuple[Tensor, Tensor]:
    """grad·gelu'(h) (…, F), and its sums (F,) over all but the last dimension, for the bias that is part of h."""
    out, sums = launched(grad, h, PIECE)
    return out, sums.to(bias_F.dtype)


def launched(grad: Tensor, h: Tensor, piece: Piece) -> tuple[Tensor, Tensor]:
    """`gelu_backward` in pieces of this size, the sums in float32."""
    grad, h = grad.contiguous(), h.contiguous()
    width = h.shape[-1]
    count = h.numel() // max(width, 1)
    parts = -(-count // piece.rows)
    out, sums = torch.empty_like(h), h.new_empty(parts, width, dtype=torch.float32)
    if h.numel():
        _kernel()[(-(-width // piece.columns), parts)](
            grad, h, out, sums, count, width, ROWS=piece.rows, M=piece.together, N=piece.columns,
            num_warps=piece.warps,
        )  # fmt: skip
    return out, sums.sum(0)


def _shapes(grad: Tensor, h: Tensor, bias_F: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(h, memory_format=torch.contiguous_format), torch.empty_like(bias_F)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _back(ctx: Any, grad_out: Tensor, grad_sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By formula, for whoever wants a second derivative: gelu'' = φ·(2 - h²)."""
    grad, h, bias_F = ctx.saved_tensors
    both, wide = grad_out.float() + grad_sums.float(), h.float()
    density = (-0.5 * wide * wide).exp() * 0.3989422804014327
    bend = both * grad.float() * density * (2 - wide * wide)
    slope = torch.ops.aten.gelu_backward(both, wide)
    return slope.to(grad.dtype), bend.to(h.dtype), bend.flatten(0, -2).sum(0).to(bias_F.dtype)


gelu_backward.register_fake(_shapes)
gelu_backward.register_autograd(_back, setup_context=_keep)
