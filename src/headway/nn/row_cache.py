"""The KV cache of rows that come and go: every row has a length of its own and attends to its own keys only.

Buffers have room for more rows than are in use, so that a row is added by copying it alone and removed without a copy.
What a row computes does not depend on the other rows (`ops.kernels.ragged`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from headway.errors import ShapeError
from headway.nn.cache import AttendArgs, KVBuffers, KVCache, LayerCache
from headway.ops import Offset
from headway.ops.kernels.gathered import is_available
from headway.ops.kernels.ragged import RaggedIndex, ragged_index

MIN_ROWS = 8  # for which buffers are allocated at least
MIN_CAPACITY = 64  # positions, likewise; a multiple of 16, so that every row begins at a multiple of 64 bytes


class RowBuffers(KVBuffers):
    """The keys and values (rows there is room for, G, capacity, E) of one layer; the first rows are in use."""

    __slots__ = ()

    @classmethod
    def like(cls, buffers: KVBuffers, rows: int, capacity: int) -> RowBuffers:
        """Empty buffers for rows such as those of another cache."""
        if buffers.k is None or buffers.v is None:
            raise ShapeError("the cache is empty: only rows that have read a token can be joined")
        made = cls(capacity)
        made.k, made.v = (
            each.new_zeros(rows, each.shape[1], capacity, each.shape[3]) for each in (buffers.k, buffers.v)
        )
        return made

    @property
    def both(self) -> tuple[Tensor, Tensor]:
        """Keys and values of all rows."""
        assert self.k is not None
        assert self.v is not None
        return self.k, self.v

    def write(self, k: Tensor, v: Tensor, at: Offset, used: int) -> tuple[Tensor, Tensor]:
        """Put new keys and values (B, G, K, E) at positions `at` (B,); returns those of the B rows up to `used` + K."""
        rows, end = len(k), used + k.shape[2]
        if end > self.both[0].shape[2]:
            self.grow(end)
        held = [self._put(each.narrow(0, 0, rows), new, at, end) for each, new in zip(self.both, (k, v), strict=True)]
        return held[0].narrow(2, 0, end), held[1].narrow(2, 0, end)

    def take(self, other: KVBuffers, rows: Sequence[int], positions: int, first: int) -> None:
        """Copy rows of another cache, up to `positions`, to the rows from `first` on."""
        for mine, theirs in zip(self.both, (other.k, other.v), strict=True):
            assert theirs is not None
            for place, row in enumerate(rows, first):
                mine[place, :, :positions] = theirs[row, :, :positions]

    def move(self, row: int, to: int, positions: int) -> None:
        """Copy a row over another."""
        for each in self.both:
            each[to, :, :positions] = each[row, :, :positions]


class RowsStep(NamedTuple):
    """What a step of all layers reads and writes: the same places in the buffers of each."""

    kv: list[tuple[Tensor, Tensor]]  # keys and values (rows there is room for, G, capacity, E) of each layer
    places: Tensor  # (B·G,): where the new key of each row and head goes, in E-wide rows of a buffer
    keys: RaggedIndex  # those of each row and head, the new one included


@dataclass(frozen=True, slots=True)
class RowsKVCache(KVCache):
    """B rows of unequal length; `length` is (B,)."""

    def step(self, heads: int) -> RowsStep | None:
        """For one more token of each row, in float32 and with as many heads of keys as of queries; None otherwise."""
        assert isinstance(self.length, Tensor)
        held, end = self.layers[0].k, self.used + 1
        if held is None or held.dtype != torch.float32 or held.shape[1] != heads or not is_available():
            return None
        for layer in self.layers:
            if end > layer.capacity:
                layer.grow(end)
        kv = [layer.both for layer in self.layers if isinstance(layer, RowBuffers)]
        k, rows = kv[0][0], len(self.length)
        shape, stride = (rows, heads, end, k.shape[3]), k.stride()
        seen = torch.arange(end) <= self.length.view(-1, 1, 1)
        first = torch.arange(rows * heads).view(rows, heads) * k.shape[2]
        places = (first + self.length.unsqueeze(1)).flatten()
        return RowsStep(kv, places, ragged_index(seen.expand(-1, heads, -1), shape, stride))

    @classmethod
    def join(cls, caches: Sequence[KVCache]) -> RowsKVCache:
        """The rows of several caches, in their order. The first may be overwritten, the others stay valid."""
        lengths = [row_lengths(each) for each in caches]
        count, longest = sum(map(len, lengths)), max(each.used for each in caches)
        first = caches[0]
        if isinstance(first, RowsKVCache) and first._room >= count:
            layers, copied = first.layers, 1
            for layer in layers:
                if longest > layer.capacity:
                    layer.grow(longest)
        else:
            rows, capacity = _power_of_two(count, MIN_ROWS), _power_of_two(longest + 1, MIN_CAPACITY)
            layers, copied = tuple(RowBuffers.like(layer, rows, capacity) for layer in first.layers), 0
        place = sum(map(len, lengths[:copied]))
        for cache, length in zip(caches[copied:], lengths[copied:], strict=True):
            for layer, theirs in zip(layers, cache.layers, strict=True):
                assert isinstance(layer, RowBuffers)
                layer.take(theirs, range(len(length)), cache.used, place)
            place += len(length)
        return cls(layers, torch.cat(lengths), longest)

    @classmethod
    def copy_of(cls, cache: KVCache, rows_B: Tensor) -> RowsKVCache:
        """These rows in buffers of their own; the cache stays valid."""
        length, rows = row_lengths(cache)[rows_B], rows_B.tolist()
        room, capacity = _power_of_two(len(rows), MIN_ROWS), _power_of_two(cache.used + 1, MIN_CAPACITY)
        layers = tuple(RowBuffers.like(layer, room, capacity) for layer in cache.layers)
        for layer, theirs in zip(layers, cache.layers, strict=True):
            layer.take(theirs, rows, cache.used, 0)
        return cls(layers, length, _longest(length))

    @property
    def _room(self) -> int:
        held = self.layers[0].k
        return 0 if held is None else len(held)

    def layer_caches(self, count: int) -> Sequence[LayerCache]:
        return [RowsLayerCache(buffers, self.length, self.used) for buffers in self.layers]

    def _rows(self) -> int:
        assert isinstance(self.length, Tensor)
        return len(self.length)

    def _gathered(self, rows_B: Tensor) -> Self:
        """Rows that change places come from beyond those that stay, or else all are copied."""
        assert isinstance(self.length, Tensor)
        rows, kept = rows_B.tolist(), len(rows_B)
        moves = [(row, to) for to, row in enumerate(rows) if row != to]
        if any(row < kept for row, _ in moves):
            return type(self)(*_fields(RowsKVCache.copy_of(self, rows_B)))
        for layer in self.layers:
            assert isinstance(layer, RowBuffers)
            for row, to in moves:
                layer.move(row, to, self.used)
        length = self.length[rows_B]
        return type(self)(self.layers, length, _longest(length))


@dataclass(frozen=True, slots=True)
class RowsLayerCache(LayerCache):
    """One layer's buffers during a step of rows of unequal length."""

    def update(self, args: AttendArgs) -> AttendArgs:
        """Write this pass's keys and values; the queries of each row attend to its own."""
        k, v = self.buffers.write(args.k, args.v, self.at, self.used)
        return RowsAttendArgs(args.q, k, v, args.mask, args.bias, args.offset)


@dataclass(slots=True)
class RowsAttendArgs(AttendArgs):
    """Attention of rows of unequal length: by a kernel in which rows are independent, or one row after the other."""

    @property
    def kernel(self) -> str | None:
        simple = self.q.dtype == torch.float32 and self.q.shape[2] == 1 and self.k.shape == self.v.shape
        return "ragged" if simple and self.mask is not None and is_available() else None

    def separate_rows(self) -> Iterator[AttendArgs]:
        """Each row with its own keys, as it would be alone."""
        assert isinstance(self.offset, Tensor)
        for row, offset in enumerate(self.offset.tolist()):
            end, here = offset + self.q.shape[2], slice(row, row + 1)
            k, v = self.k[here, :, :end], self.v[here, :, :end]
            mask = None if self.mask is None else self.mask.at(offset)
            bias = None if self.bias is None else self.bias.at(offset)
            yield AttendArgs(self.q[here], k, v, mask, bias, offset)


def row_lengths(cache: KVCache) -> Tensor:
    """(B,): the tokens that each row of a cache has read."""
    if isinstance(cache.length, Tensor) and cache.length.ndim:
        return cache.length
    held = cache.layers[0].k
    return torch.full((0 if held is None else len(held),), int(cache.length))


def _fields(cache: KVCache) -> tuple[tuple[KVBuffers, ...], Offset, int]:
    return cache.layers, cache.length, cache.used


def _longest(length_B: Tensor) -> int:
    return int(length_B.max()) if len(length_B) else 0


def _power_of_two(count: int, least: int) -> int:
    return max(least, 1 << (count - 1).bit_length())
