"""GELU's Triton kernels as operators of torch, which a compiled model launches like its own, with their gradients."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.library import triton_op, wrap_triton

BLOCK = 2048  # numbers of a program, forwards


class Piece(NamedTuple):
    """What a program does backwards: `rows` rows of `columns` columns, `together` rows at a time."""

    rows: int = 128
    together: int = 16
    columns: int = 128
    warps: int = 4


PIECE = Piece()


def behind(x: Tensor, weight_FD: Tensor, bias_F: Tensor) -> Tensor:
    """gelu(x·weightᵀ + bias): (…, D) -> (…, F)."""
    # The bias's gradient does not come by the layer's way, which would read the whole once more.
    out: Tensor = _Gelu.apply(F.linear(x, weight_FD, bias_F.detach()), bias_F)  # type: ignore[no-untyped-call]
    return out


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, bias_F: Tensor) -> Tensor:
        ctx.save_for_backward(h, bias_F)
        out: Tensor = gelu(h)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        made: tuple[Tensor, Tensor] = gelu_backward(grad, *ctx.saved_tensors)
        return made


@functools.cache
def _kernels() -> Any:
    """The Triton code, imported when it is first needed."""
    return import_module("headway.ops.fused_gelu.kernels")


@triton_op("headway::gelu", mutates_args={})
def gelu(h: Tensor) -> Tensor:
    """h·Φ(h), Φ to 7.5e-8."""
    h = h.contiguous()
    out = torch.empty_like(h)
    if h.numel():
        wrap_triton(_kernels().forward)[(-(-h.numel() // BLOCK),)](h, out, h.numel(), BLOCK=BLOCK, num_warps=4)
    return out


@triton_op("headway::gelu_backward", mutates_args={})
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
        wrap_triton(_kernels().backward)[(-(-width // piece.columns), parts)](
            grad, h, out, sums, count, width, ROWS=piece.rows, M=piece.together, N=piece.columns,
            num_warps=piece.warps,
        )  # fmt: skip
    return out, sums.sum(0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _back(ctx: Any, grad_out: Tensor, grad_sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By formula, for whoever wants a second derivative: gelu'' = φ·(2 - h²)."""
    grad, h, bias_F = ctx.saved_tensors
    both = grad_out.float() + grad_sums.float()
    wide = h.float() + (bias_F - bias_F.detach())  # + 0: `h` knows its bias as a constant, a third derivative may not
    density = (-0.5 * wide * wide).exp() * 0.3989422804014327
    bend = both * grad.float() * density * (2 - wide * wide)
    slope = torch.ops.aten.gelu_backward(both, wide)
    return slope.to(grad.dtype), bend.to(h.dtype), bend.flatten(0, -2).sum(0).to(bias_F.dtype)


gelu_backward.register_autograd(_back, setup_context=_keep)
