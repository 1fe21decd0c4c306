"""The Triton kernels as operators of torch, with their gradients; torch.compile takes them as they are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

BAND = "Tensor? slopes, Tensor? lengths, int? low, int? high, int offset, float scale"


class Tile(NamedTuple):
    """Queries and keys of a tile, and how a program works on it."""

    queries: int
    keys: int
    warps: int
    stages: int


class Tiles(NamedTuple):
    """The tiles of the three kernels."""

    forward: Tile
    of_keys: Tile  # dK and dV
    of_queries: Tile  # dQ


TINY = Tiles(*[Tile(16, 16, 4, 1)] * 3)  # for the interpreter
SINGLE = Tiles(*[Tile(32, 32, 4, 1)] * 3)  # float32 takes no tensor cores, and twice the memory
NARROW = Tiles(Tile(128, 64, 4, 3), Tile(64, 128, 8, 2), Tile(128, 64, 8, 3))  # heads up to 64 wide
WIDE = Tiles(Tile(128, 128, 8, 2), Tile(64, 128, 8, 2), Tile(128, 64, 8, 2))


@functools.cache
def kernels() -> ModuleType:
    """The Triton code, imported when it is first needed."""
    from headway.ops.kernels import flash_triton

    return flash_triton


@functools.cache
def interpreted() -> bool:
    """Do the kernels run in Triton's interpreter, on a CPU?"""
    from triton.runtime.interpreter import InterpretedFunction

    return isinstance(kernels().forward, InterpretedFunction)


def tiles(q: Tensor, v: Tensor) -> Tiles:
    """Measured on an H200."""
    if not q.is_cuda:
        return TINY
    if q.element_size() == 4:
        return SINGLE
    return NARROW if max(q.shape[-1], v.shape[-1]) <= 64 else WIDE


class Band(NamedTuple):
    """The arguments that say what is seen."""

    slopes: Tensor | None
    lengths: Tensor | None
    low: int | None
    high: int | None
    offset: int
    scale: float

    def constants(self, q: Tensor, v: Tensor, tile: Tile) -> dict[str, Any]:
        """What a kernel is compiled for."""
        width, value_width = q.shape[-1], v.shape[-1]
        ahead = self.high is not None and self.high <= self.offset
        return {
            "E": width,
            "W": value_width,
            "EP": max(16, 1 << (width - 1).bit_length()),
            "WP": max(16, 1 << (value_width - 1).bit_length()),
            "M": tile.queries,
            "N": tile.keys,
            "HAS_LOW": self.low is not None,
            "HAS_HIGH": self.high is not None,
            "HAS_LENGTHS": self.lengths is not None,
            "BIAS": 0 if self.slopes is None else 1 if ahead else 2,
            "num_warps": tile.warps,
            "num_stages": tile.stages,
        }

    def bounds(self, q: Tensor, k: Tensor) -> tuple[int, int]:
        """low and high, no farther than there are tokens, so that sums of them stay in 32 bits."""
        most = q.shape[2] + k.shape[2]
        return max(-most, min(self.low or 0, most)), max(-most, min(self.high or 0, most))


def _strides(*tensors: Tensor) -> tuple[int, ...]:
    """Of rows, heads and tokens; features lie side by side."""
    return tuple(step for x in tensors for step in x.stride()[:3])


def _blank(x_BHTE: Tensor, width: int | None = None) -> Tensor:
    """Room for (B, H, T, width), tokens outermost: joining the heads is then a view."""
    rows, heads, tokens, own = x_BHTE.shape
    return x_BHTE.new_empty(rows, tokens, heads, own if width is None else width).transpose(1, 2)


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Any]:
    return torch.library.custom_op(f"headway::{name}", mutates_args=(), schema=schema)


@_operator("flash", f"(Tensor q, Tensor k, Tensor v, {BAND}) -> (Tensor, Tensor)")
def flash(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """(B, H, T, W), and the logarithm of the softmax's denominator (B, H, T) in float32."""
    band = Band(*rest)
    rows, heads, queries, _ = q.shape
    out, lse = _blank(q, v.shape[-1]), q.new_empty(rows, heads, queries, dtype=torch.float32)
    tile = tiles(q, v).forward
    low, high = band.bounds(q, k)
    kernels().forward[(-(-queries // tile.queries), rows * heads)](
        q, k, v, out, lse, band.slopes, band.lengths, *_strides(q, k, v, out), heads, heads // k.shape[1], queries,
        k.shape[2], low, high, band.scale * math.log2(math.e), band.offset, **band.constants(q, v, tile),
    )  # fmt: skip
    return out, lse


@flash.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _blank(q, v.shape[-1]), q.new_empty(q.shape[:3], dtype=torch.float32)


@_operator(
    "flash_backward",
    f"(Tensor grad, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {BAND})"
    " -> (Tensor, Tensor, Tensor)",
)
def flash_backward(
    grad: Tensor, grad_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v."""
    band = Band(*rest)
    (rows, heads, queries, _), (_, groups, keys, _) = q.shape, k.shape
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    code, (_, of_keys, of_queries) = kernels(), tiles(q, v)
    shared = band.constants(q, v, of_keys)
    delta = torch.empty_like(lse)
    code.row_products[(-(-queries // 64), rows * heads)](
        out, grad, None if grad_lse is None else grad_lse.contiguous(), delta, *_strides(out, grad), heads, queries,
        W=shared["W"], WP=shared["WP"], M=64, HAS_DLSE=grad_lse is not None,
    )  # fmt: skip
    numbers = (queries, keys, *band.bounds(q, k), band.scale * math.log2(math.e), band.scale, band.offset)
    dk, dv, dq = _blank(k), _blank(v), _blank(q)
    code.backward_keys[(-(-keys // of_keys.keys), rows * groups)](
        q, k, v, grad, dk, dv, lse, delta, band.slopes, band.lengths, *_strides(q, k, v, grad, dk, dv), heads, groups,
        *numbers, GROUP=heads // groups, **shared,
    )  # fmt: skip
    code.backward_queries[(-(-queries // of_queries.queries), rows * heads)](
        q, k, v, grad, dq, lse, delta, band.slopes, band.lengths, *_strides(q, k, v, grad, dq), heads,
        heads // groups, *numbers, **band.constants(q, v, of_queries),
    )  # fmt: skip
    return dq, dk, dv


@flash_backward.register_fake
def _(grad: Tensor, grad_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return _blank(q), _blank(k), _blank(v)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, slopes, lengths, *ctx.numbers = inputs
    ctx.save_for_backward(q, k, v, *output, slopes, lengths)
    ctx.set_materialize_grads(False)


def _back(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    q, k, v, out, lse, slopes, lengths = ctx.saved_tensors
    grad = torch.zeros_like(out) if grad is None else grad
    grads = flash_backward(grad, grad_lse, q, k, v, out, lse, slopes, lengths, *ctx.numbers)
    return *grads, *[None] * (2 + len(ctx.numbers))


flash.register_autograd(_back, setup_context=_keep)
