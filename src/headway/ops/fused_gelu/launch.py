"""GELU's Triton kernels as operators of torch with gradients, which torch.compile can inline."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.library import triton_op, wrap_triton

BLOCK = 2048  # elements per program in the forward pass


class BackwardTile(NamedTuple):
    """The work of a program in the backward pass: `rows` rows of `columns` columns, `rows_at_once` at a time."""

    rows: int = 128
    rows_at_once: int = 16
    columns: int = 128
    warps: int = 4


BACKWARD_TILE = BackwardTile()


def fused_linear_gelu(x: Tensor, weight_FD: Tensor, bias_F: Tensor) -> Tensor:
    """gelu(x·weightᵀ + bias): (…, D) -> (…, F)."""
    # The bias is detached in the linear layer, whose backward pass would read dh once more to sum it: _Gelu returns it.
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
        grads: tuple[Tensor, Tensor] = gelu_backward(grad, *ctx.saved_tensors)
        return grads


@functools.cache
def _kernels() -> Any:
    """The Triton kernels, imported at first use."""
    return import_module("headway.ops.fused_gelu.kernels")


@triton_op("headway::gelu", mutates_args={})
def gelu(h: Tensor) -> Tensor:
    """h·Φ(h), with Φ accurate to 7.5e-8."""
    h = h.contiguous()
    out = torch.empty_like(h)
    if h.numel():
        wrap_triton(_kernels().forward)[(-(-h.numel() // BLOCK),)](h, out, h.numel(), BLOCK=BLOCK, num_warps=4)
    return out


@triton_op("headway::gelu_backward", mutates_args={})
def gelu_backward(grad: Tensor, h: Tensor, bias_F: Tensor) -> tuple[Tensor, Tensor]:
    """grad·gelu'(h) (…, F), and its sum (F,) over all but the last dimension, the gradient of the bias in h."""
    out, sums = gelu_backward_in_tiles(grad, h, BACKWARD_TILE)
    return out, sums.to(bias_F.dtype)


def gelu_backward_in_tiles(grad: Tensor, h: Tensor, tile: BackwardTile) -> tuple[Tensor, Tensor]:
    """`gelu_backward` in tiles of this size, the sums in float32."""
    grad, h = grad.contiguous(), h.contiguous()
    width = h.shape[-1]
    count = h.numel() // max(width, 1)
    parts = -(-count // tile.rows)
    out, sums = torch.empty_like(h), h.new_empty(parts, width, dtype=torch.float32)
    if h.numel():
        wrap_triton(_kernels().backward)[(-(-width // tile.columns), parts)](
            grad, h, out, sums, count, width, ROWS=tile.rows, M=tile.rows_at_once, N=tile.columns,
            num_warps=tile.warps,
        )  # fmt: skip
    return out, sums.sum(0)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs)


def _double_backward(ctx: Any, grad_out: Tensor, grad_sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The second derivative by formula: gelu''(h) = φ(h)·(2 - h²)."""
    grad, h, bias_F = ctx.saved_tensors
    both = grad_out.float() + grad_sums.float()
    # The bias is detached in h; adding 0 = bias - bias.detach() connects it again, for a third derivative.
    h_exact = h.float() + (bias_F - bias_F.detach())
    density = (-0.5 * h_exact * h_exact).exp() * 0.3989422804014327
    second = both * grad.float() * density * (2 - h_exact * h_exact)
    first = torch.ops.aten.gelu_backward(both, h_exact)
    return first.to(grad.dtype), second.to(h.dtype), second.flatten(0, -2).sum(0).to(bias_F.dtype)


gelu_backward.register_autograd(_double_backward, setup_context=_setup_context)
