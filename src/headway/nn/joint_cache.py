"""Several searches in one pass: their tokens go through every layer together, and each attends to its own keys only.

A member keeps the cache and the memory that it has alone, beams included, and its attention is the call that it makes
alone. So nothing is copied when members come and go, and no member changes what another attends to. What the layers
between compute for a row must not depend on the number of rows: see `decoding.row_batch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headway.nn.cache import AttendArgs, KVCache, LayerCache
from headway.nn.memory import LayerMemory, Memory


@dataclass(frozen=True, slots=True)
class JointKVCache(KVCache):
    """The caches of several members, each with so many rows of tokens; blank rows may follow."""

    members: tuple[KVCache, ...] = ()
    rows: tuple[int, ...] = ()
    blanks: int = 0

    @classmethod
    def of(cls, members: Sequence[KVCache], rows: Sequence[int], blanks: int) -> JointKVCache:
        """The members in this order; each takes one token for each of its rows."""
        ready = tuple(member.ready(1) for member in members)
        lengths = [
            length if isinstance(length := member.length, Tensor) and length.ndim else torch.full((count,), int(length))
            for member, count in zip(ready, rows, strict=True)
        ]
        length_N = torch.cat([*lengths, torch.zeros(blanks, dtype=torch.long)])
        used = max(member.used for member in ready)
        return cls(ready[0].layers, length_N, used, ready, tuple(rows), blanks)

    def layer_caches(self, count: int) -> Sequence[LayerCache]:
        assert count == 1, "members take one token at a time"
        layers = zip(*(member.layer_caches(1) for member in self.members), strict=True)
        return [
            JointLayerCache(each[0].buffers, self.length, self.used, each, self.members, self.rows, self.blanks)
            for each in layers
        ]

    def advanced(self, count: int, counts_B: Tensor | None = None) -> JointKVCache:
        members = tuple(member.advanced(count) for member in self.members)
        return JointKVCache(self.layers, self.length + count, self.used + count, members, self.rows, self.blanks)


@dataclass(frozen=True, slots=True)
class JointLayerCache(LayerCache):
    """One layer of it."""

    parts: tuple[LayerCache, ...]
    members: tuple[KVCache, ...]
    rows: tuple[int, ...]
    blanks: int

    def update(self, args: AttendArgs) -> AttendArgs:
        """Every member writes its own keys and values."""
        made, first = [], 0
        for part, member, count in zip(self.parts, self.members, self.rows, strict=True):
            here, length = slice(first, first + count), member.length
            mask = None if args.mask is None else args.mask.at(length)
            bias = None if args.bias is None else args.bias.at(length)
            made.append(part.update(AttendArgs(args.q[here], args.k[here], args.v[here], mask, bias, length)))
            first += count
        return JointAttendArgs(args.q, args.k, args.v, parts=made, blanks=self.blanks)


@dataclass(slots=True)
class JointAttendArgs(AttendArgs):
    """The attention of every member; blank rows attend to nothing and get zeros."""

    parts: Sequence[AttendArgs] = field(kw_only=True)
    blanks: int = field(kw_only=True)

    def separate_rows(self) -> Iterator[AttendArgs]:
        return iter(self.parts)

    def joined_rows(self, mixed: Sequence[Tensor]) -> Tensor:
        """What `separate_rows` gave, mixed (N, H, T, E) -> (B, H, 1, E)."""
        found = [part.rows_of(x) for part, x in zip(self.parts, mixed, strict=True)]
        return torch.cat([*found, found[0].new_zeros(self.blanks, *found[0].shape[1:])])


@dataclass(frozen=True, slots=True)
class JointMemory(Memory):
    """The sources of several members."""

    members: tuple[Memory, ...] = ()
    rows: tuple[int, ...] = ()
    blanks: int = 0

    @classmethod
    def of(cls, members: Sequence[Memory], rows: Sequence[int], blanks: int) -> JointMemory:
        """The members in this order, with as many rows of tokens each."""
        return cls((), None, 1, tuple(members), tuple(rows), blanks)

    def layer(self, number: int) -> LayerMemory:
        parts = tuple(member.layer(number) for member in self.members)
        return JointLayerMemory(parts[0].k, parts[0].v, None, 1, parts, self.rows, self.blanks)


@dataclass(frozen=True, slots=True)
class JointLayerMemory(LayerMemory):
    """One layer of it."""

    parts: tuple[LayerMemory, ...] = ()
    rows: tuple[int, ...] = ()
    blanks: int = 0

    def attend_args(self, q_BHTE: Tensor) -> AttendArgs:
        split = q_BHTE.split_with_sizes([*self.rows, self.blanks])
        parts = [part.attend_args(q) for part, q in zip(self.parts, split, strict=False)]
        return JointAttendArgs(q_BHTE, q_BHTE, q_BHTE, parts=parts, blanks=self.blanks)
