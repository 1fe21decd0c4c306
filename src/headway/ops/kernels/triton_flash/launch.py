"""The Triton kernels as custom operators of torch with gradients, which torch.compile can trace through."""

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
from headway.ops.kernels.triton_flash.tuning import (
    GLOBALS_PER_TILE,
    QUERIES_PER_PART,
    FlashTiles,
    TileConfig,
    select_tiles,
)

ARGUMENTS = (
    "Tensor? slopes, Tensor? lengths, Tensor? global_positions, Tensor? global_index, Tensor? seed, "
    "int? low, int? high, int offset, float scale, float dropout"
)


@functools.cache
def kernels() -> tuple[Any, Any]:
    """The modules of the forward and the backward kernels, imported at first use."""
    return tuple(import_module(f"headway.ops.kernels.triton_flash.{way}") for way in ("forward", "backward"))  # type: ignore[return-value]


@constant
def interpreted() -> bool:
    """Whether the kernels run in Triton's interpreter, on a CPU."""
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
    """The width rounded up to a power of two, at least 16, as tensor cores need it."""
    return max(16, 1 << (width - 1).bit_length())


class FlashArguments(NamedTuple):
    """The arguments of the operators besides q, k and v: band, global keys, ALiBi, dropout and scale."""

    slopes: Tensor | None
    lengths: Tensor | None
    global_positions: Tensor | None  # (B, C) int32, positions of the global keys, -1 for padding
    global_index: Tensor | None  # (B, C) int64, the same with any valid key for padding: to gather with
    seed: Tensor | None  # (1,), of dropout
    low: int | None
    high: int | None
    offset: int
    scale: float
    dropout: float

    def constants(self, q: Tensor, v: Tensor, tile: TileConfig) -> dict[str, Any]:
        """The compile-time arguments of a kernel."""
        width, value_width = q.shape[-1], v.shape[-1]
        causal = self.high is not None and self.high <= self.offset and self.global_positions is None
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
            "HAS_GLOBALS": self.global_positions is not None,
            "GLOBALS_PER_TILE": GLOBALS_PER_TILE,
            "HAS_DROPOUT": self.seed is not None,
            "BIAS": 0 if self.slopes is None else 1 if causal else 2,  # CAUSAL_ALIBI, SYMMETRIC_ALIBI
            "num_warps": tile.warps,
            "num_stages": tile.stages,
            "enable_fp_fusion": True,  # scores·scale - max as one FMA; stated because Triton's default may change
        }

    def scalars(self, n: Sizes) -> tuple[float, ...]:
        """T, S, C, low, high, scale·log₂e, scale, offset and dropout.

        low and high are clipped to the number of tokens, so that index sums fit into 32 bits.
        """
        limit = n.queries + n.keys
        low, high = (max(-limit, min(edge or 0, limit)) for edge in (self.low, self.high))
        count = 0 if self.global_positions is None else self.global_positions.shape[1]
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
    def small_tiles(self) -> bool:
        """Whether small tiles are faster: at the edges of a window, and with dropout."""
        return self.low is not None or self.seed is not None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that kernels read."""
        return self.slopes, self.lengths, self.global_positions, self.seed

    def gather_globals(self, *tensors: Tensor) -> tuple[Any, ...]:
        """Tile descriptors of the global tokens (B, G, C, E) of tensors (B, G, S, E); None without global tokens."""
        if self.global_index is None:
            return tuple(None for _ in tensors)
        index = self.global_index[:, None, :, None]
        found = (x.gather(2, index.expand(-1, x.shape[1], -1, x.shape[3])) for x in tensors)
        return tuple(_descriptor(aligned(x), GLOBALS_PER_TILE, padded(x.shape[-1])) for x in found)


def aligned(x: Tensor) -> Tensor:
    """x as TMA (the tensor memory accelerator) reads it: contiguous features, other strides multiples of 16 bytes."""
    unit = 16 // x.element_size()
    steps = all(step and not step % unit for step, size in zip(x.stride()[:-1], x.shape[:-1], strict=True) if size > 1)
    if x.stride(-1) == 1 and steps and not x.data_ptr() % 16:
        return x
    width = x.shape[-1]
    return F.pad(x, (0, -width % unit)).contiguous()[..., :width]


@functools.cache
def _descriptor_type() -> Any:
    return import_module("triton.tools.tensor_descriptor").TensorDescriptor


def _descriptor(x_BHTE: Tensor, count: int, width: int) -> Any:
    """A descriptor that loads x in tiles of `count` tokens and `width` features, zeros out of bounds."""
    strides = [step if size > 1 else 16 for step, size in zip(x_BHTE.stride(), x_BHTE.shape, strict=True)]
    return _descriptor_type()(x_BHTE, list(x_BHTE.shape), [*strides[:3], 1], [1, 1, count, width])


def _descriptors(tile: TileConfig, q: Tensor, k: Tensor, v: Tensor, *grad: Tensor) -> tuple[Any, ...]:
    """Descriptors of q, k, v and, in the backward pass, dO."""
    width, value_width = padded(q.shape[-1]), padded(v.shape[-1])
    return (
        _descriptor(q, tile.queries, width),
        _descriptor(k, tile.keys, width),
        _descriptor(v, tile.keys, value_width),
        *(_descriptor(x, tile.queries, value_width) for x in grad),
    )


def _strides(*tensors: Tensor) -> tuple[int, ...]:
    """The strides of rows, heads and tokens; features are contiguous."""
    return tuple(step for x in tensors for step in x.stride()[:3])


def _empty_tokens_first(x_BHTE: Tensor, width: int | None = None) -> Tensor:
    """An uninitialised (B, H, T, width), stored as (B, T, H, width): merging the heads is then a view."""
    rows, heads, tokens, own = x_BHTE.shape
    return x_BHTE.new_empty(rows, tokens, heads, own if width is None else width).transpose(1, 2)


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Any]:
    return torch.library.custom_op(f"headway::{name}", mutates_args=(), schema=schema)


def launch(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """The output (B, H, T, W) and L (B, H, T), the log of the softmax's denominator, in float32."""
    args = FlashArguments(*rest)
    q, k, v = (aligned(x) for x in (q, k, v))
    n, tile = Sizes.of(q, k), select_tiles(q, v, small=args.small_tiles).forward
    out, lse = _empty_tokens_first(q, v.shape[-1]), q.new_empty(q.shape[:3], dtype=torch.float32)
    kernels()[0].forward[(-(-n.queries // tile.queries), n.rows * n.heads)](
        *_descriptors(tile, q, k, v), *args.gather_globals(k, v), out, lse, *args.tensors, *_strides(out), n.heads,
        n.heads // n.groups, *args.scalars(n), **args.constants(q, v, tile),
    )  # fmt: skip
    return out, lse


flash = _operator("flash", f"(Tensor q, Tensor k, Tensor v, {ARGUMENTS}) -> (Tensor, Tensor)")(launch)


def _fake_forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _empty_tokens_first(q, v.shape[-1]), q.new_empty(q.shape[:3], dtype=torch.float32)


def launch_dq(
    chosen: FlashTiles, args: FlashArguments, out: Tensor, lse: Tensor, grad_lse: Tensor | None, *tensors: Tensor
) -> tuple[Tensor, Tensor]:
    """dQ, and the statistics of every query that the other kernels read, (2, B, H, pitch): L·log₂e and D - dL.

    The pitch is T rounded up to whole tiles; in the padding L is +inf, so that all weights are 0.
    """
    q, k, v, _ = tensors
    n, tile, step = Sizes.of(q, k), chosen.dq, chosen.dk_dv.queries
    longest = max(tile.queries, step, 0 if args.global_positions is None else _global_keys_tile(q).queries)
    pitch = -(-n.queries // longest) * longest
    dq, row_stats = _empty_tokens_first(q), lse.new_empty(2, n.rows, n.heads, pitch)
    grad_lse = None if grad_lse is None else grad_lse.contiguous()
    kernels()[1].backward_queries[(pitch // tile.queries, n.rows * n.heads)](
        *_descriptors(tile, *tensors), *args.gather_globals(k, v), out, dq, lse, grad_lse, *row_stats, *args.tensors,
        *_strides(out, dq), pitch, n.heads, n.heads // n.groups, *args.scalars(n), HAS_DLSE=grad_lse is not None,
        STEP=step, **args.constants(q, v, tile),
    )  # fmt: skip
    return dq, row_stats


def launch_dk_dv(tile: TileConfig, args: FlashArguments, row_stats: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
    """dK and dV."""
    q, k, v, _ = tensors
    n = Sizes.of(q, k)
    dk, dv = _empty_tokens_first(k), _empty_tokens_first(v)
    kernels()[1].backward_keys[(-(-n.keys // tile.keys), n.rows * n.groups)](
        *_descriptors(tile, *tensors), dk, dv, *row_stats, args.slopes, args.lengths, args.seed, *_strides(dk, dv),
        row_stats.shape[-1], n.heads, n.groups, *args.scalars(n), GROUP=n.heads // n.groups,
        **args.constants(q, v, tile),
    )  # fmt: skip
    return dk, dv


def _global_keys_tile(q: Tensor) -> TileConfig:
    return TileConfig(64 if q.is_cuda else 16, QUERIES_PER_PART, 4, 2)


def add_global_key_gradients(dk: Tensor, dv: Tensor, args: FlashArguments, row_stats: Tensor, *tensors: Tensor) -> None:
    """Add to dK and dV what the global keys get from queries whose band does not contain them."""
    q, k, v, grad = tensors
    assert args.global_positions is not None
    assert args.global_index is not None
    n, tile = Sizes.of(q, k), _global_keys_tile(q)
    parts, blocks = -(-n.queries // QUERIES_PER_PART), -(-args.global_positions.shape[1] // GLOBALS_PER_TILE)
    widths = (padded(q.shape[-1]), padded(v.shape[-1]))
    shape = (parts, n.rows, n.groups, blocks * GLOBALS_PER_TILE)
    sums = [q.new_empty(*shape, width, dtype=torch.float32) for width in widths]
    kernels()[1].backward_global_keys[(parts, n.rows * n.groups, blocks)](
        _descriptor(q, tile.queries, widths[0]), _descriptor(grad, tile.queries, widths[1]),
        *args.gather_globals(k, v), *sums, *row_stats, *args.tensors, row_stats.shape[-1], n.heads, n.groups,
        *args.scalars(n), GROUP=n.heads // n.groups,
        **args.constants(q, v, tile),
    )  # fmt: skip
    index = args.global_index[:, None, :, None]
    for total, part in zip((dk, dv), sums, strict=True):
        found = part.sum(0)[:, :, : index.shape[2], : total.shape[-1]]
        total.scatter_add_(2, index.expand_as(found), found.to(total.dtype))


@_operator(
    "flash_backward",
    f"(Tensor grad, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {ARGUMENTS})"
    " -> (Tensor, Tensor, Tensor)",
)
def flash_backward(
    grad: Tensor, grad_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV."""
    args = FlashArguments(*rest)
    chosen = select_tiles(q, v, small=args.small_tiles)
    tensors = tuple(aligned(x) for x in (q, k, v, grad))
    dq, row_stats = launch_dq(chosen, args, out, lse, grad_lse, *tensors)
    dk, dv = launch_dk_dv(chosen.dk_dv, args, row_stats, *tensors)
    if args.global_positions is not None:
        add_global_key_gradients(dk, dv, args, row_stats, *tensors)
    return dq, dk, dv


def _fake_backward(
    grad: Tensor, grad_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    return _empty_tokens_first(q), _empty_tokens_first(k), _empty_tokens_first(v)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.scalars = inputs[8:]
    ctx.save_for_backward(*inputs[:3], *output, *inputs[3:8])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors  # q, k, v, out, lse and the tensors of FlashArguments
    grad = torch.zeros_like(saved[3]) if grad is None else grad
    grads = flash_backward(grad, grad_lse, *saved, *ctx.scalars)
    return *grads, *[None] * (5 + len(ctx.scalars))


flash.register_fake(_fake_forward)
flash.register_autograd(_backward, setup_context=_setup_context)
flash_backward.register_fake(_fake_backward)
