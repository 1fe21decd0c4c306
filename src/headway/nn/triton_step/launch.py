"""Launches the kernels of a decoder's step."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from headway.nn.block import Block
from headway.nn.cache import KVBuffers
from headway.nn.norms import FeatureLayerNorm
from headway.nn.triton_step import ACTIVATIONS

PROGRAM = 2048  # weights of a program in a product: few enough that there is work for all multiprocessors
KEYS = 128  # keys at a time
WARPS = 4


@functools.cache
def _kernels() -> Any:
    """The Triton kernels, imported at first use."""
    return import_module("headway.nn.triton_step.kernels")


def block_step(block: Block, x_BD: Tensor, buffers: KVBuffers, length: Tensor) -> Tensor:
    """A pre-norm block for the token at position `length`, () on the device, whose key and value it writes (B, D)."""
    attention, feedforward = block.attention, block.feedforward
    assert feedforward is not None
    qkv = product(x_BD, attention.qkv, norm=block.attention_norm)
    mixed = attended(qkv, buffers, length, heads=attention.heads, scale=float(attention.scale))
    x_BD = product(mixed, attention.out, residual=x_BD)
    inner = product(x_BD, feedforward.up, norm=block.feedforward_norm, activation=ACTIVATIONS[feedforward.activation])
    return product(inner, feedforward.down, residual=x_BD)


def product(
    x_BD: Tensor,
    layer: nn.Linear,
    *,
    norm: nn.Module | None = None,
    activation: str = "none",
    residual: Tensor | None = None,
) -> Tensor:
    """residual + activation(layer(norm(x))): (B, D) -> (B, N)."""
    rows, width = x_BD.shape
    columns, weight = layer.out_features, layer.weight
    out = x_BD.new_empty(rows, columns)
    block = _power_of_two(width)
    at_once = max(PROGRAM // block, 1)
    gain: Any = weight if norm is None else norm.weight
    shift: Any = getattr(norm, "bias", None)
    kind = "none" if norm is None else "layer" if isinstance(norm, FeatureLayerNorm) else "rms"
    eps: Any = getattr(norm, "eps", 0.0)
    _kernels().matvec[(-(-columns // at_once),)](
        x_BD, weight, weight if layer.bias is None else layer.bias, gain, gain if shift is None else shift,
        x_BD if residual is None else residual, out, width, columns,
        torch.finfo(x_BD.dtype).eps if eps is None else eps,
        ROWS=rows, NORM=kind, ACTIVATION=activation, BIASED=layer.bias is not None, SHIFTED=shift is not None,
        RESIDUAL=residual is not None, COLUMNS=at_once, WIDTH=block, num_warps=WARPS,
    )  # fmt: skip
    return out


def attended(qkv_BN: Tensor, buffers: KVBuffers, length: Tensor, *, heads: int, scale: float) -> Tensor:
    """Attention of one query per row and head, (B, (H + 2G)·E) -> (B, H·E)."""
    k, v = buffers.k, buffers.v
    assert k is not None
    assert v is not None
    rows, groups, capacity, width = k.shape
    out = qkv_BN.new_empty(rows, heads * width)
    _kernels().attend_one[(rows, heads)](
        qkv_BN, k, v, length, out, capacity, scale,
        HEADS=heads, GROUPS=groups, E=width, E_BLOCK=_power_of_two(width), KEYS=KEYS, num_warps=WARPS,
    )  # fmt: skip
    return out


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
