"""The Triton kernels as operators of torch, with their gradients; torch.compile takes them as they are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway._compile import constant
from headway.ops.kernels.triton_flash.tuning import PART, PICKED, Tile, Tiles, tiles

BAND = (
    "Tensor? slopes, Tensor? lengths, Tensor? places, Tensor? pick, Tensor? seed, "
    "int? low, int? high, int offset, float scale, float dropout"
)


@functools.cache
def kernels() -> tuple[Any, Any]:
    """The Triton code, forwards and backwards, imported when it is first needed."""
    return tuple(import_module(f"headway.ops.kernels.triton_flash.{way}") for way in ("forward", "backward"))  # type: ignore[return-value]


@constant
def interpreted() -> bool:
    """Do the kernels run in Triton's interpreter, on a CPU?"""
    kind = import_module("triton.runtime.interpreter").InterpretedFunction
    return isinstance(kernels()[0].forward, kind)


class Sizes(NamedTuple):
    """B, H, G, T, S."""

    rows: int
    heads: int
    groups: int
    queries: int
    keys: int

    @classmethod
    def of(cls, q: Tensor, k: Tensor) -> Sizes:
        """The sizes of q (B, H, T, E) and k (B, G, S, E)."""
        return cls(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2])


def padded(width: int) -> int:
    """The power of two that tensor cores take."""
    return max(16, 1 << (width - 1).bit_length())


class Band(NamedTuple):
    """The arguments that say what is seen."""

    slopes: Tensor | None
    lengths: Tensor | None
    places: Tensor | None  # (B, C) int32, of keys that are seen from everywhere; -1: none
    pick: Tensor | None  # (B, C) int64, the same; any key in place of none
    seed: Tensor | None  # (1,) of dropout
    low: int | None
    high: int | None
    offset: int
    scale: float
    dropout: float

    def constants(self, q: Tensor, v: Tensor, tile: Tile) -> dict[str, Any]:
        """What a kernel is compiled for."""
        width, value_width = q.shape[-1], v.shape[-1]
        ahead = self.high is not None and self.high <= self.offset and self.places is None
        return {
            "E": width,
            "W": value_width,
            "EP": padded(width),
            "WP": padded(value_width),
            "M": tile.queries,
            "N": tile.keys,
            "HAS_LOW": self.low is not None,
            "HAS_HIGH": self.high is not None,
            "HAS_LENGTHS": self.lengths is not None,
            "HAS_PLACES": self.places is not None,
            "PICKED": PICKED,
            "HAS_DROPOUT": self.seed is not None,
            "BIAS": 0 if self.slopes is None else 1 if ahead else 2,
            "num_warps": tile.warps,
            "num_stages": tile.stages,
            "enable_fp_fusion": True,  # scores·scale - base in one instruction; Triton's default is about to change
        }

    def numbers(self, n: Sizes) -> tuple[float, ...]:
        """T, S, C; low and high, no farther than there are tokens, so that sums stay in 32 bits; and the rest."""
        most = n.queries + n.keys
        low, high = (max(-most, min(edge or 0, most)) for edge in (self.low, self.high))
        count = 0 if self.places is None else self.places.shape[1]
        return (
            n.queries,
            n.keys,
            count,
            low,
            high,
            self.scale * math.log2(math.e),
            self.scale,
            self.offset,
            self.dropout,
        )

    @property
    def tight(self) -> bool:
        """Do small tiles serve better than large ones?"""
        return self.low is not None or self.seed is not None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """Those that kernels read."""
        return self.slopes, self.lengths, self.places, self.seed

    def picked(self, *tensors: Tensor) -> tuple[Any, ...]:
        """(B, G, S, E) -> the tokens at `places` (B, G, C, E), in tiles; None where there are none."""
        if self.pick is None:
            return tuple(None for _ in tensors)
        index = self.pick[:, None, :, None]
        found = (x.gather(2, index.expand(-1, x.shape[1], -1, x.shape[3])) for x in tensors)
        return tuple(_tiled(aligned(x), PICKED, padded(x.shape[-1])) for x in found)


def aligned(x: Tensor) -> Tensor:
    """x as the copy engine takes it: features side by side, everything else in steps of 16 bytes."""
    unit = 16 // x.element_size()
    steps = all(step and not step % unit for step, size in zip(x.stride()[:-1], x.shape[:-1], strict=True) if size > 1)
    if x.stride(-1) == 1 and steps and not x.data_ptr() % 16:
        return x
    width = x.shape[-1]
    return F.pad(x, (0, -width % unit)).contiguous()[..., :width]


@functools.cache
def _descriptor() -> Any:
    return import_module("triton.tools.tensor_descriptor").TensorDescriptor


def _tiled(x_BHTE: Tensor, count: int, width: int) -> Any:
    """x in tiles of `count` tokens, `width` features; zeros beyond the edges."""
    strides = [step if size > 1 else 16 for step, size in zip(x_BHTE.stride(), x_BHTE.shape, strict=True)]
    return _descriptor()(x_BHTE, list(x_BHTE.shape), [*strides[:3], 1], [1, 1, count, width])


def _all_tiled(tile: Tile, q: Tensor, k: Tensor, v: Tensor, *grad: Tensor) -> tuple[Any, ...]:
    """q, k, v and perhaps the gradient of the output."""
    width, value_width = padded(q.shape[-1]), padded(v.shape[-1])
    return (
        _tiled(q, tile.queries, width),
        _tiled(k, tile.keys, width),
        _tiled(v, tile.keys, value_width),
        *(_tiled(x, tile.queries, value_width) for x in grad),
    )


def _strides(*tensors: Tensor) -> tuple[int, ...]:
    """Of rows, heads and tokens; features lie side by side."""
    return tuple(step for x in tensors for step in x.stride()[:3])


def _blank(x_BHTE: Tensor, width: int | None = None) -> Tensor:
    """Room for (B, H, T, width), tokens outermost: joining the heads is then a view."""
    rows, heads, tokens, own = x_BHTE.shape
    return x_BHTE.new_empty(rows, tokens, heads, own if width is None else width).transpose(1, 2)


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Any]:
    return torch.library.custom_op(f"headway::{name}", mutates_args=(), schema=schema)


def launch(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """(B, H, T, W), and the logarithm of the softmax's denominator (B, H, T) in float32."""
    band = Band(*rest)
    q, k, v = (aligned(x) for x in (q, k, v))
    n, tile = Sizes.of(q, k), tiles(q, v, tight=band.tight).forward
    out, lse = _blank(q, v.shape[-1]), q.new_empty(q.shape[:3], dtype=torch.float32)
    kernels()[0].forward[(-(-n.queries // tile.queries), n.rows * n.heads)](
        *_all_tiled(tile, q, k, v), *band.picked(k, v), out, lse, *band.tensors, *_strides(out), n.heads,
        n.heads // n.groups, *band.numbers(n), **band.constants(q, v, tile),
    )  # fmt: skip
    return out, lse


flash = _operator("flash", f"(Tensor q, Tensor k, Tensor v, {BAND}) -> (Tensor, Tensor)")(launch)


def _shapes(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _blank(q, v.shape[-1]), q.new_empty(q.shape[:3], dtype=torch.float32)


def of_queries(
    chosen: Tiles, band: Band, out: Tensor, lse: Tensor, grad_lse: Tensor | None, *four: Tensor
) -> tuple[Tensor, Tensor]:
    """dQ, and what the other kernels read of every query, (2, B, H, pitch): log₂ of its denominator, and Σ dO·O - dL.

    The pitch is T filled up to whole tiles, where nothing is seen.
    """
    q, k, v, _ = four
    n, tile, step = Sizes.of(q, k), chosen.of_queries, chosen.of_keys.queries
    longest = max(tile.queries, step, 0 if band.places is None else _picked_tile(q).queries)
    pitch = -(-n.queries // longest) * longest
    dq, lines = _blank(q), lse.new_empty(2, n.rows, n.heads, pitch)
    grad_lse = None if grad_lse is None else grad_lse.contiguous()
    kernels()[1].backward_queries[(pitch // tile.queries, n.rows * n.heads)](
        *_all_tiled(tile, *four), *band.picked(k, v), out, dq, lse, grad_lse, *lines, *band.tensors,
        *_strides(out, dq), pitch, n.heads, n.heads // n.groups, *band.numbers(n), HAS_DLSE=grad_lse is not None,
        STEP=step, **band.constants(q, v, tile),
    )  # fmt: skip
    return dq, lines


def of_keys(tile: Tile, band: Band, lines: Tensor, *four: Tensor) -> tuple[Tensor, Tensor]:
    """dK and dV."""
    q, k, v, _ = four
    n = Sizes.of(q, k)
    dk, dv = _blank(k), _blank(v)
    kernels()[1].backward_keys[(-(-n.keys // tile.keys), n.rows * n.groups)](
        *_all_tiled(tile, *four), dk, dv, *lines, band.slopes, band.lengths, band.seed, *_strides(dk, dv),
        lines.shape[-1], n.heads, n.groups, *band.numbers(n), GROUP=n.heads // n.groups, **band.constants(q, v, tile),
    )  # fmt: skip
    return dk, dv


def _picked_tile(q: Tensor) -> Tile:
    return Tile(64 if q.is_cuda else 16, PART, 4, 2)


def add_picked(dk: Tensor, dv: Tensor, band: Band, lines: Tensor, *four: Tensor) -> None:
    """What keys that are seen from everywhere get from queries whose band they lie outside of is added to dK and dV."""
    q, k, v, grad = four
    assert band.places is not None
    assert band.pick is not None
    n, tile = Sizes.of(q, k), _picked_tile(q)
    parts, blocks = -(-n.queries // PART), -(-band.places.shape[1] // PICKED)
    widths = (padded(q.shape[-1]), padded(v.shape[-1]))
    sums = [q.new_empty(parts, n.rows, n.groups, blocks * PICKED, width, dtype=torch.float32) for width in widths]
    kernels()[1].backward_picked[(parts, n.rows * n.groups, blocks)](
        _tiled(q, tile.queries, widths[0]), _tiled(grad, tile.queries, widths[1]), *band.picked(k, v), *sums, *lines,
        *band.tensors, lines.shape[-1], n.heads, n.groups, *band.numbers(n), GROUP=n.heads // n.groups,
        **band.constants(q, v, tile),
    )  # fmt: skip
    index = band.pick[:, None, :, None]
    for total, part in zip((dk, dv), sums, strict=True):
        found = part.sum(0)[:, :, : index.shape[2], : total.shape[-1]]
        total.scatter_add_(2, index.expand_as(found), found.to(total.dtype))


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
    chosen = tiles(q, v, tight=band.tight)
    four = tuple(aligned(x) for x in (q, k, v, grad))
    dq, lines = of_queries(chosen, band, out, lse, grad_lse, *four)
    dk, dv = of_keys(chosen.of_keys, band, lines, *four)
    if band.places is not None:
        add_picked(dk, dv, band, lines, *four)
    return dq, dk, dv


def _gradient_shapes(
    grad: Tensor, grad_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    return _blank(q), _blank(k), _blank(v)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.numbers = inputs[8:]
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:8])
    ctx.set_materialize_grads(False)


def _back(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors  # q, k, v, out, lse and the band's own
    grad = torch.zeros_like(saved[3]) if grad is None else grad
    grads = flash_backward(grad, grad_lse, *saved, *ctx.numbers)
    return *grads, *[None] * (5 + len(ctx.numbers))


flash.register_fake(_shapes)
flash.register_autograd(_back, setup_context=_keep)
flash_backward.register_fake(_gradient_shapes)
