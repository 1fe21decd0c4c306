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


def fused_linear_gelu(x: Tensor, weight_FD: Tensor, bias_F: Tensor, *, tanh: bool = False) -> Tensor:
    """gelu(x·weightᵀ + bias): (…, D) -> (…, F)."""
    # The bias is detached in the linear layer, whose backward pass would read dh once more to sum it: _Gelu returns it.
    out: Tensor = _Gelu.apply(F.linear(x, weight_FD, bias_F.detach()), bias_F, tanh)  # type: ignore[no-untyped-call]
    return out


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, bias_F: Tensor, tanh: bool) -> Tensor:
        ctx.save_for_backward(h, bias_F)
        ctx.tanh = tanh
        out: Tensor = gelu(h, tanh)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        h, bias_F = ctx.saved_tensors
        grad_h, grad_bias = gelu_backward(grad, h, bias_F, ctx.tanh)
        return grad_h, grad_bias, None


@functools.cache
def _kernels() -> Any:
    """The Triton kernels, imported at first use."""
    return import_module("headway.ops.fused_gelu.kernels")


@triton_op("headway::gelu", mutates_args={})
def gelu(h: Tensor, tanh: bool = False) -> Tensor:
    """h·Φ(h), with Φ accurate to 7.5e-8, or approximated by tanh as `F.gelu(h, approximate="tanh")` does."""
    h = h.contiguous()
    out = torch.empty_like(h)
    if h.numel():
        wrap_triton(_kernels().forward)[(-(-h.numel() // BLOCK),)](
            h, out, h.numel(), TANH=tanh, BLOCK=BLOCK, num_warps=4
        )
    return out


@triton_op("headway::gelu_backward", mutates_args={})
def gelu_backward(grad: Tensor, h: Tensor, bias_F: Tensor, tanh: bool = False) -> tuple[Tensor, Tensor]:
    """grad·gelu'(h) (…, F), and its sum (F,) over all but the last dimension, the gradient of the bias in h."""
    out, sums = gelu_backward_in_tiles(grad, h, BACKWARD_TILE, tanh=tanh)
    return out, sums.to(bias_F.dtype)


def gelu_backward_in_tiles(grad: Tensor, h: Tensor, tile: BackwardTile, *, tanh: bool = False) -> tuple[Tensor, Tensor]:
    """`gelu_backward` in tiles of this size, the sums in float32."""
    grad, h = grad.contiguous(), h.contiguous()
    width = h.shape[-1]
    count = h.numel() // max(width, 1)
    parts = -(-count // tile.rows)
    out, sums = torch.empty_like(h), h.new_empty(parts, width, dtype=torch.float32)
    if h.numel():
        wrap_triton(_kernels().backward)[(-(-width // tile.columns), parts)](
            grad, h, out, sums, count, width, TANH=tanh, ROWS=tile.rows, M=tile.rows_at_once, N=tile.columns,
            num_warps=tile.warps,
        )  # fmt: skip
    return out, sums.sum(0)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.tanh = inputs
    ctx.save_for_backward(*tensors)


def _double_backward(ctx: Any, grad_out: Tensor, grad_sums: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    """The second derivative by formula."""
    grad, h, bias_F = ctx.saved_tensors
    both = grad_out.float() + grad_sums.float()
    # The bias is detached in h; adding 0 = bias - bias.detach() connects it again, for a third derivative.
    h_exact = h.float() + (bias_F - bias_F.detach())
    second = both * grad.float() * _second_derivative(h_exact, tanh=ctx.tanh)
    first = torch.ops.aten.gelu_backward(both, h_exact, approximate="tanh" if ctx.tanh else "none")
    return first.to(grad.dtype), second.to(h.dtype), second.flatten(0, -2).sum(0).to(bias_F.dtype), None


def _second_derivative(h: Tensor, *, tanh: bool) -> Tensor:
    """gelu'' = 2g' + h·g'': φ(h)·(2 - h²), or with g = σ(a), a = 2√(2/π)·(h + 0.044715·h³), by the chain rule."""
    if not tanh:
        return (-0.5 * h * h).exp() * 0.3989422804014327 * (2 - h * h)
    slope = 1.5957691216 + 0.2140644488 * h * h  # a'
    gate = torch.sigmoid(h * (1.5957691216 + 0.0713548163 * h * h))
    both = gate * (1 - gate)
    return both * (2 * slope + h * ((1 - 2 * gate) * slope * slope + 0.4281288977 * h))


gelu_backward.register_autograd(_double_backward, setup_context=_setup_context)
