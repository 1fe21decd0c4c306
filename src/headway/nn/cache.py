"""What a decoder remembers: keys and values in buffers that are written in place.

A `Cache` is a handle: `extend` and `select` on a model hand back a new one and spend the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from headway.errors import ShapeError
from headway.ops import Offset


@dataclass(slots=True)
class LayerCache:
    """The keys and values (B, G, capacity, E) of one layer. Buffers double when they are full."""

    capacity: int
    k: Tensor | None = None
    v: Tensor | None = None
    spare: list[Tensor] = field(default_factory=list)

    def write(self, k: Tensor, v: Tensor, at: Offset, used: int) -> tuple[Tensor, Tensor]:
        """Put new keys and values (B, G, K, E) at position `at`; all of them up to `used` + K come back."""
        end = used + k.shape[2]
        if k.requires_grad or v.requires_grad:
            k, v = k.detach(), v.detach()
        self.k = self._put(self.k, k, at, end)
        self.v = self._put(self.v, v, at, end)
        return self.k.narrow(2, 0, end), self.v.narrow(2, 0, end)

    def _put(self, buffer: Tensor | None, new: Tensor, at: Offset, end: int) -> Tensor:
        rows, groups, count, width = new.shape
        if buffer is not None and rows != buffer.shape[0]:
            raise ShapeError(f"{rows} rows of tokens for a cache of {buffer.shape[0]} rows; `select` changes the rows")
        if buffer is None or end > buffer.shape[2]:
            while self.capacity < end:
                self.capacity *= 2
            # Zeros, not empty: a slot that no query may see still meets a weight of 0, and 0·NaN is NaN.
            grown = new.new_zeros(rows, groups, self.capacity, width)
            if buffer is not None:
                grown[:, :, : buffer.shape[2]] = buffer
            buffer, self.spare = grown, []
        if isinstance(at, int):
            buffer.narrow(2, at, count).copy_(new)
        elif not at.ndim:
            buffer.index_copy_(2, at + torch.arange(count, device=new.device), new)
        else:
            row = torch.arange(rows, device=new.device).unsqueeze(-1)
            slot = at.unsqueeze(-1) + torch.arange(count, device=new.device)
            buffer[row, :, slot] = new.transpose(1, 2)
        return buffer

    def move(self, places: Tensor, rows: Tensor, used: int) -> None:
        """Put these rows into these places; the first `used` positions hold something, and all else stays."""
        for buffer in (self.k, self.v):
            assert buffer is not None
            filled = buffer.narrow(2, 0, used)
            filled.index_copy_(0, places, filled.index_select(0, rows))

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
class Cache:
    """The caches of a stack's layers and how much of them is filled."""

    layers: tuple[LayerCache, ...]
    length: Offset = 0  # tokens seen: a number while all rows agree, (B,) once they differ
    used: int = 0  # an upper bound on `length` that needs no look at the device
    fixed: bool = False  # shapes that never change, as a captured graph needs: the whole buffer is always attended to

    @classmethod
    def empty(cls, layers: int, capacity: int) -> Cache:
        """A cache for this many layers; its buffers are made by the first write."""
        return cls(tuple(LayerCache(max(capacity, 1)) for _ in range(layers)))

    def before(self, count: int) -> int:
        """How many positions of the buffers lie before `count` new ones."""
        return self.layers[0].capacity - count if self.fixed and self.layers else self.used

    def fix(self, rows: int, groups: int, width: int, like: Tensor) -> Cache:
        """The same with room for its whole capacity from the start and the length, one for all rows, on the device."""
        for layer in self.layers:
            layer.k, layer.v = (like.new_zeros(rows, groups, layer.capacity, width) for _ in range(2))
        return Cache(self.layers, torch.zeros((), dtype=torch.long, device=like.device), 0, fixed=True)

    def advanced(self, count: int, counts_B: Tensor | None = None) -> Cache:
        """After `count` more tokens, of which only `counts_B` are real where rows differ."""
        if self.fixed:
            assert isinstance(self.length, Tensor)
            self.length.add_(count)
            return self
        return replace(self, length=self.length + (count if counts_B is None else counts_B), used=self.used + count)

    def select(self, rows_B: Tensor) -> Cache:
        """These rows, in this order."""
        places = self._changed(rows_B)
        if places is None:
            for layer in self.layers:
                layer.select(rows_B)
        elif len(places):
            rows = rows_B[places]
            for layer in self.layers:
                layer.move(places, rows, self.used)
        ragged = isinstance(self.length, Tensor) and self.length.ndim > 0
        return replace(self, length=self.length[rows_B]) if ragged else self  # type: ignore[index]

    def _changed(self, rows_B: Tensor) -> Tensor | None:
        """The places that get another row, where the rest may stay; not on a GPU, where to look is to wait."""
        held = self.layers[0].k if self.layers else None
        if held is None or rows_B.device.type != "cpu" or len(rows_B) != held.shape[0]:
            return None
        return (rows_B != torch.arange(len(rows_B))).nonzero().squeeze(-1)
