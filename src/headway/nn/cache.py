"""The KV cache of a decoder: keys and values in buffers that are written in place.

A cache is a handle: a model's `extend` and `select` return a new one and invalidate the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from headway.errors import ShapeError
from headway.ops import Bias, Listed, Mask, Offset


@dataclass(slots=True)
class AttendArgs:
    """The arguments of one `ops.attend`: queries (B, H, T, E) over keys and values (B, G, S, E)."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | None = None
    bias: Bias | None = None
    offset: Offset = 0  # the position of the first query

    @property
    def hypotheses(self) -> int:
        """Of a beam search: how many share a row of keys; their queries are adjacent in T. See `beam_cache`."""
        return 1

    @property
    def key_index(self) -> Tensor | None:
        """(B, positions): which of the shared keys are each hypothesis's own; None: all."""
        return None

    @property
    def kernel(self) -> str | None:
        """The kernel that the cache asks for; None: as the layer is configured."""
        return None

    def separate_rows(self) -> Iterator[AttendArgs] | None:
        """Each row by itself where rows must not be computed together; None: they may be. See `row_cache`."""
        return None

    def joined_rows(self, mixed: Sequence[Tensor]) -> Tensor:
        """What `separate_rows` gave, mixed -> the rows of all (B, H, T, E)."""
        return torch.cat(list(mixed))

    def rows_of(self, x_NHTE: Tensor) -> Tensor:
        """The mixed values with a row for each row of the input, which hypotheses share here."""
        return x_NHTE

    def per_row(self) -> AttendArgs:
        """The same attention with a row of keys and values for each row of queries."""
        return self

    def as_rows(self, x_BTD: Tensor) -> Tensor:
        """The attention's output with a row for each row of its input."""
        return x_BTD


@dataclass(slots=True)
class KVBuffers:
    """The keys and values (B, G, capacity, E) of one layer. Buffers double when they are full."""

    capacity: int
    k: Tensor | None = None
    v: Tensor | None = None
    spare: list[Tensor] = field(default_factory=list)
    position_major: bool = False  # in memory all heads of a position are adjacent, not all positions of a head

    def write(self, k: Tensor, v: Tensor, at: Offset, used: int) -> tuple[Tensor, Tensor]:
        """Put new keys and values (B, G, K, E) at position `at`; returns all of them up to `used` + K."""
        end = used + k.shape[2]
        if k.requires_grad or v.requires_grad:
            k, v = k.detach(), v.detach()
        self.k = self._put(self.k, k, at, end)
        self.v = self._put(self.v, v, at, end)
        return self.k.narrow(2, 0, end), self.v.narrow(2, 0, end)

    def _put(self, buffer: Tensor | None, new: Tensor, at: Offset, end: int) -> Tensor:
        rows, groups, count, width = new.shape
        if buffer is not None:
            self._check(rows, buffer)
        if buffer is None or end > buffer.shape[2]:
            buffer = self._grown(new.new_zeros(rows, groups, 0, width) if buffer is None else buffer, end)
        if isinstance(at, int):
            buffer.narrow(2, at, count).copy_(new)
        elif not at.ndim:
            buffer.index_copy_(2, at + torch.arange(count, device=new.device), new)
        else:
            row = torch.arange(rows, device=new.device).unsqueeze(-1)
            slot = at.unsqueeze(-1) + torch.arange(count, device=new.device)
            buffer[row, :, slot] = new.transpose(1, 2)
        return buffer

    @staticmethod
    def _check(rows: int, buffer: Tensor) -> None:
        if rows != buffer.shape[0]:
            raise ShapeError(f"{rows} rows of tokens for a cache of {buffer.shape[0]} rows; `select` changes the rows")

    def _grown(self, buffer: Tensor, end: int) -> Tensor:
        while self.capacity < end:
            self.capacity *= 2
        rows, groups, held, width = buffer.shape
        # Zeros, not empty: a slot that no query may see still meets a weight of 0, and 0·NaN is NaN.
        if self.position_major:
            grown = buffer.new_zeros(rows, self.capacity, groups, width).transpose(1, 2)
        else:
            grown = buffer.new_zeros(rows, groups, self.capacity, width)
        grown[:, :, :held] = buffer
        self.spare = []
        return grown

    def grow(self, end: int) -> None:
        """Move to new buffers with room for `end` positions."""
        if self.k is not None and self.v is not None:
            self.k, self.v = self._grown(self.k, end), self._grown(self.v, end)

    def reserve(self, end: int, rows: int) -> tuple[Tensor, Tensor]:
        """The buffers, which have been written to before with as many rows, with room for `end` positions."""
        if self.k is None or self.v is None:
            raise ShapeError("the cache is empty: nothing was written to it yet")
        self._check(rows, self.k)
        if end > self.k.shape[2]:
            self.k, self.v = self._grown(self.k, end), self._grown(self.v, end)
        return self.k, self.v

    def select(self, rows_B: Tensor) -> None:
        """Keep these rows, in this order: through a second buffer when the number of rows stays."""
        if self.k is None or self.v is None:
            return
        if len(rows_B) == self.k.shape[0]:
            old = [self.k, self.v]
            spare = self.spare or [torch.empty_like(self.k), torch.empty_like(self.v)]
            self.k, self.v = (torch.index_select(a, 0, rows_B, out=b) for a, b in zip(old, spare, strict=True))
            self.spare = old
        else:
            self.k, self.v, self.spare = self.k[rows_B], self.v[rows_B], []


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One layer's buffers during one forward pass, and where this pass writes to them."""

    buffers: KVBuffers
    at: Offset  # where the new keys go
    used: int  # positions before them

    @property
    def hypotheses(self) -> int:
        """Of a beam search: how many share a row of the buffers."""
        return 1

    @property
    def visible(self) -> Listed | None:
        """Which of the shared keys each hypothesis may see; None: all."""
        return None

    def update(self, args: AttendArgs) -> AttendArgs:
        """Write this pass's keys and values; the queries attend over all keys so far."""
        k, v = self.buffers.write(args.k, args.v, self.at, self.used)
        return AttendArgs(args.q, k, v, args.mask, args.bias, args.offset)


@dataclass(frozen=True, slots=True)
class KVCache:
    """The buffers of a stack's layers and how much of them is filled."""

    layers: tuple[KVBuffers, ...]
    length: Offset = 0  # tokens seen: a number while all rows agree, (B,) once they differ
    used: int = 0  # an upper bound on `length` that needs no synchronisation with the device

    @classmethod
    def empty(cls, layers: int, capacity: int) -> Self:
        """A cache for this many layers; its buffers are allocated by the first write."""
        return cls(tuple(KVBuffers(max(capacity, 1)) for _ in range(layers)))

    def before(self, count: int) -> int:
        """How many positions of the buffers lie before `count` new ones."""
        return self.used

    def layer_caches(self, count: int) -> Sequence[LayerCache]:
        """One for each layer, to write `count` new tokens with."""
        used = self.before(count)
        return [LayerCache(buffers, self.length, used) for buffers in self.layers]

    def prefix(self, length: int, capacity: int) -> Self:
        """A copy of the first positions of all rows, which agree on their length, with room for `capacity`."""
        copy = type(self).empty(len(self.layers), capacity)
        for layer, fresh in zip(self.layers, copy.layers, strict=True):
            if layer.k is not None and layer.v is not None:
                fresh.write(layer.k.narrow(2, 0, length), layer.v.narrow(2, 0, length), 0, 0)
        return replace(copy, length=length, used=length)

    def static(self, rows: int, groups: int, width: int, like: Tensor) -> StaticKVCache:
        """The same capacity, allocated at once, with the length (one for all rows) on the device."""
        for layer in self.layers:
            layer.k, layer.v = (like.new_zeros(rows, groups, layer.capacity, width) for _ in range(2))
        return StaticKVCache(self.layers, torch.zeros((), dtype=torch.long, device=like.device))

    def advanced(self, count: int, counts_B: Tensor | None = None) -> Self:
        """After `count` more tokens, of which only `counts_B` are real where rows differ."""
        return replace(self, length=self._length_after(count, counts_B), used=self.used + count)

    def _length_after(self, count: int, counts_B: Tensor | None) -> Offset:
        return self.length + (count if counts_B is None else counts_B)

    def ready(self, count: int, counts_B: Tensor | None = None) -> Self:
        """The same in a form that takes `count` tokens for each row, of which `counts_B` are real."""
        return self

    def select(self, rows_B: Tensor) -> Self:
        """These rows, in this order."""
        return self if self._keeps(rows_B) else self._gathered(rows_B)

    def _rows(self) -> int | None:
        """How many rows the buffers hold; None before the first write."""
        held = self.layers[0].k if self.layers else None
        return None if held is None else len(held)

    def _keeps(self, rows_B: Tensor) -> bool:
        """Whether all rows stay where they are. On a GPU the answer would need a synchronisation: not known there."""
        count = self._rows()
        if count is None or rows_B.device.type != "cpu":
            return False
        return len(rows_B) == count and torch.equal(rows_B, torch.arange(count))

    def _gathered(self, rows_B: Tensor) -> Self:
        for layer in self.layers:
            layer.select(rows_B)
        ragged = isinstance(self.length, Tensor) and self.length.ndim > 0
        return replace(self, length=self.length[rows_B]) if ragged else self  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class StaticKVCache(KVCache):
    """Buffers whose shapes never change, as a captured CUDA graph needs: all of them is always attended to."""

    def before(self, count: int) -> int:
        return self.layers[0].capacity - count if self.layers else self.used

    def advanced(self, count: int, counts_B: Tensor | None = None) -> Self:
        assert isinstance(self.length, Tensor)
        self.length.add_(count)
        return self
