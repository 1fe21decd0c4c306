"""What a decoder remembers: keys and values in buffers that are written in place.

A `Cache` is a handle: `extend` and `select` on a model hand back a new one and spend the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from headway.errors import ShapeError
from headway.nn.beam_cache import Lines, sources
from headway.ops import Offset
from headway.ops.kernels import gathered


@dataclass(slots=True)
class LayerCache:
    """The keys and values (B, G, capacity, E) of one layer. Buffers double when they are full."""

    capacity: int
    k: Tensor | None = None
    v: Tensor | None = None
    spare: list[Tensor] = field(default_factory=list)
    lined: bool = False  # then a position's heads lie side by side, not a head's positions: so lines read and write

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
        if self.lined:
            grown = buffer.new_zeros(rows, self.capacity, groups, width).transpose(1, 2)
        else:
            grown = buffer.new_zeros(rows, groups, self.capacity, width)
        grown[:, :, :held] = buffer
        self.spare = []
        return grown

    def reach(self, end: int, rows: int) -> tuple[Tensor, Tensor]:
        """The buffers of so many rows, which something was written to before, with room up to `end`."""
        if self.k is None or self.v is None:
            raise ShapeError("a cache that nothing was written to has no buffers yet")
        self._check(rows, self.k)
        if end > self.k.shape[2]:
            self.k, self.v = self._grown(self.k, end), self._grown(self.v, end)
        return self.k, self.v

    def part(self, lines: Lines) -> None:
        """Make room for lines, in the order in which they are read where they are enough to be read by lists."""
        self.capacity = lines.begin(max(self.capacity, lines.shared))
        if self.k is not None and self.v is not None and self.k.is_cpu:
            self.lined = gathered.preferred_layout(len(lines.places), self.k.shape[1]) == "positions"
            if self.lined:
                self.k, self.v = self._grown(self.k, self.capacity), self._grown(self.v, self.capacity)

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
    parts: bool = False  # whether rows that are repeated become lines of one row
    lines: Lines | None = None

    @classmethod
    def empty(cls, layers: int, capacity: int, *, parts: bool = False) -> Cache:
        """A cache for this many layers; its buffers are made by the first write."""
        return cls(tuple(LayerCache(max(capacity, 1)) for _ in range(layers)), parts=parts)

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
        lines = self.lines and self.lines.grown()
        length = self.length + (count if counts_B is None else counts_B)
        return replace(self, length=length, used=self.used + count, lines=lines)

    def ready(self, count: int, counts_B: Tensor | None = None) -> Cache:
        """The same for `count` tokens a row: lines take one at a time, and all alike."""
        return self if self.lines is None or (count == 1 and counts_B is None) else self._apart()

    def select(self, rows_B: Tensor) -> Cache:
        """These rows, in this order."""
        if self._as_they_are(rows_B):
            return self
        together = self._together(rows_B)
        if together is not None:
            return together
        cache = self._apart()
        for layer in cache.layers:
            layer.select(rows_B)
        ragged = isinstance(cache.length, Tensor) and cache.length.ndim > 0
        return replace(cache, length=cache.length[rows_B]) if ragged else cache  # type: ignore[index]

    def _as_they_are(self, rows_B: Tensor) -> bool:
        """Whether all rows stay where they are; not on a GPU, where to look is to wait."""
        held = self.layers[0].k if self.layers else None
        if held is None or rows_B.device.type != "cpu":
            return False
        count = len(held) * (self.lines.count if self.lines else 1)
        return len(rows_B) == count and torch.equal(rows_B, torch.arange(count))

    def _together(self, rows_B: Tensor) -> Cache | None:
        """These rows as lines of the rows they come from, if they can be."""
        if not (self.parts and self.used and isinstance(self.length, int)):
            return None
        before = self.lines.count if self.lines else 1
        found = sources(rows_B, before)
        if found is None or found[1] == 1 or (self.lines and found[1] != before):
            return None
        kept, count = found
        held = self.layers[0].k if self.layers else None
        if held is None or not torch.equal(kept, torch.arange(len(held))):
            for layer in self.layers:
                layer.select(kept)
        if self.lines is not None:
            return replace(self, lines=self.lines.select(rows_B))
        lines = Lines.parted(len(kept), count, self.used)
        for layer in self.layers:
            layer.part(lines)
        return replace(self, lines=lines)

    def _apart(self) -> Cache:
        """The same with a row for each line."""
        if self.lines is None:
            return self
        for layer in self.layers:
            if layer.k is not None and layer.v is not None:
                layer.k, layer.v, layer.spare = self.lines.own(layer.k), self.lines.own(layer.v), []
            layer.lined = False
        return replace(self, lines=None)
