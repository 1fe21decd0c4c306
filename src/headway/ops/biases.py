"""Additive attention biases as values: terms added to the scaled scores before the softmax.

Like a mask, a bias is one formula over indices, so that every kernel evaluates the same expression.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

from headway.errors import ShapeError
from headway.ops.masks import Offset, check_offset, index_grid, query_positions


@dataclass(frozen=True, eq=False)
class Bias:
    """A term added to the scaled score of query i and key j."""

    def term(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The bias at these indices: batch row b, head h, query i, key j, broadcast together."""
        raise NotImplementedError

    def at(self, offset: Offset) -> Self:
        """The same bias for queries that begin at position `offset`, the length of the KV cache."""
        return replace(self, offset=offset)  # type: ignore[call-arg]  # every bias below has the field

    def check(self, rows: int, heads: int, queries: int) -> None:
        """Raise ShapeError if the bias does not fit a call of these sizes."""
        raise NotImplementedError

    @property
    def needs_gradient(self) -> bool:
        """Whether a backward pass has to reach the tensors of the bias."""
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.tensors)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The floating-point tensors of the bias, which may be learned."""
        held = (getattr(self, field.name) for field in fields(self))
        return tuple(tensor for tensor in held if isinstance(tensor, Tensor) and tensor.is_floating_point())

    def dense(self, rows: int, heads: int, queries: int, keys: int, device: torch.device) -> Tensor:
        """(B or 1, H, T, S): the bias to be added to the scores."""
        return self.term(*index_grid(rows, heads, queries, keys, device))


@dataclass(frozen=True, eq=False)
class Alibi(Bias):
    """-slope·|i - j| per head (Press et al. 2022, section 3): under a causal mask the paper's -slope·(i - j).

    Without a causal mask, as in an encoder, it is symmetric.
    """

    slopes: Tensor  # (H,)
    offset: Offset = 0

    def term(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return -self.slopes[h] * (query_positions(i, self.offset, b) - j).abs()

    def check(self, rows: int, heads: int, queries: int) -> None:
        check_offset(self, self.offset, rows)
        if tuple(self.slopes.shape) != (heads,):
            raise ShapeError(f"Alibi.slopes has shape {tuple(self.slopes.shape)}, expected (H={heads},)")


@dataclass(frozen=True, eq=False)
class Relative(Bias):
    """A table over relative positions j - i, clipped to ±reach.

    T5's buckets with one entry per distance (Raffel et al. 2020, section 2.1), or q·a of Shaw et al. 2018, equation 5.
    `table` is (B or 1, H or 1, T or 1, 2·reach + 1); the middle entry is the query's own position.
    """

    table: Tensor
    offset: Offset = 0

    def term(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        reach = self.table.shape[-1] // 2
        slot = (j - query_positions(i, self.offset, b)).clamp(-reach, reach) + reach
        row, head, query = (
            index if size > 1 else torch.zeros_like(index)
            for index, size in zip((b, h, i), self.table.shape[:3], strict=True)
        )
        return self.table[row, head, query, slot]

    def check(self, rows: int, heads: int, queries: int) -> None:
        check_offset(self, self.offset, rows)
        shape = tuple(self.table.shape)
        fits = len(shape) == 4 and shape[-1] % 2 == 1
        fits = fits and all(got in (1, want) for got, want in zip(shape, (rows, heads, queries), strict=False))
        if not fits:
            allowed = f"({rows} or 1, {heads} or 1, {queries} or 1, an odd number)"
            raise ShapeError(f"Relative.table has shape {shape}, expected {allowed}")
