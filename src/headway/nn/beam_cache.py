"""KV cache for beam search: the hypotheses of a row share its prefix and index their own suffix.

A step of a beam search chooses among the hypotheses of a source; a cache with a row for each of them would have to copy
most of itself. Here no key is moved. The keys of one position are adjacent, one for each hypothesis, and a hypothesis
is a list of the slots that its tokens were written to: the keys that it attends to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from headway.nn.cache import AttendArgs, KVBuffers, KVCache, LayerCache
from headway.ops import Causal, Lengths, Listed
from headway.ops.kernels import gathered as gathered_kernel


@dataclass(frozen=True, slots=True)
class BeamIndex:
    """`count` hypotheses for each of N rows; after the prefix a key is at shared + (position - shared)·count + slot."""

    count: int
    shared: int  # positions of the common prefix: held once
    slots: Tensor  # (N·count, P): which hypothesis wrote what this one holds at each position since the prefix

    @classmethod
    def parted(cls, rows: int, count: int, shared: int) -> BeamIndex:
        """Hypotheses that have nothing yet but their common prefix."""
        return cls(count, shared, torch.empty(rows * count, 0, dtype=torch.long))

    def select(self, hypotheses: Tensor) -> BeamIndex:
        """These hypotheses, in this order."""
        return replace(self, slots=self.slots[hypotheses])

    def grown(self) -> BeamIndex:
        """After one more position, which every hypothesis writes to its own slot."""
        own = torch.arange(len(self.slots)).remainder_(self.count).unsqueeze_(1)
        return replace(self, slots=torch.cat([self.slots, own], 1))

    def start(self, position: int) -> int:
        """Where the keys of a position begin."""
        return self.shared + (position - self.shared) * self.count

    def keys(self) -> Tensor:
        """(N·count, positions): where among the stored keys each hypothesis's own are, in the order of writing."""
        since = torch.arange(self.slots.shape[1]) * self.count + self.slots + self.shared
        return torch.cat([torch.arange(self.shared).expand(len(since), -1), since], 1)

    def mask(self) -> Listed:
        """Of the stored keys, those that each hypothesis may see: its own."""
        keys = self.keys()
        return Listed(keys.view(-1, self.count, keys.shape[1]))

    def per_hypothesis(self, x_NGSE: Tensor) -> Tensor:
        """Keys or values as stored -> each hypothesis's own, in the order of writing (N·count, G, positions, E)."""
        keys = self.keys()
        row = torch.arange(len(keys)).div(self.count, rounding_mode="floor").unsqueeze(1)
        return x_NGSE.transpose(1, 2)[row, keys].transpose(1, 2)


@dataclass(frozen=True, slots=True)
class BeamKVCache(KVCache):
    """A cache in which rows that are repeated become hypotheses of one row, for as long as each row has as many."""

    index: BeamIndex | None = None

    def layer_caches(self, count: int) -> Sequence[LayerCache]:
        if self.index is None:
            return KVCache.layer_caches(self, count)
        assert count == 1, "hypotheses take one token at a time: see `ready`"
        step = _BeamStep(self.index.grown(), self.used)
        return [BeamLayerCache(buffers, step.start, step.start, step) for buffers in self.layers]

    def advanced(self, count: int, counts_B: Tensor | None = None) -> BeamKVCache:
        index = None if self.index is None else self.index.grown()
        return BeamKVCache(self.layers, self._length_after(count, counts_B), self.used + count, index)

    def ready(self, count: int, counts_B: Tensor | None = None) -> BeamKVCache:
        return self if self.index is None or (count == 1 and counts_B is None) else self._split()

    def select(self, rows_B: Tensor) -> BeamKVCache:
        if self._keeps(rows_B):
            return self
        joined = self._joined(rows_B)
        return self._split()._gathered(rows_B) if joined is None else joined

    def _rows(self) -> int | None:
        rows = KVCache._rows(self)
        return rows if rows is None or self.index is None else rows * self.index.count

    def _joined(self, rows_B: Tensor) -> BeamKVCache | None:
        """These rows as hypotheses of the rows they come from, if they can be."""
        if not self.used or not isinstance(self.length, int):
            return None
        before = 1 if self.index is None else self.index.count
        found = selected_sources(rows_B, before)
        if found is None or found[1] == 1 or (self.index is not None and found[1] != before):
            return None
        kept, count = found
        held = KVCache._rows(self)
        if held is None or not torch.equal(kept, torch.arange(held)):
            for layer in self.layers:
                layer.select(kept)
        if self.index is not None:
            return replace(self, index=self.index.select(rows_B))
        index = BeamIndex.parted(len(kept), count, self.used)
        for layer in self.layers:
            _make_room(layer, index)
        return replace(self, index=index)

    def _split(self) -> BeamKVCache:
        """The same with a row for each hypothesis."""
        if self.index is None:
            return self
        for layer in self.layers:
            if layer.k is not None and layer.v is not None:
                layer.k, layer.v = self.index.per_hypothesis(layer.k), self.index.per_hypothesis(layer.v)
                layer.spare = []
            layer.position_major = False
        return replace(self, index=None)


def _make_room(layer: KVBuffers, index: BeamIndex) -> None:
    """Room for as many positions as before for every hypothesis, in the layout that the kernel reads fastest."""
    layer.capacity = index.start(max(layer.capacity, index.shared))
    if layer.k is not None and layer.k.is_cpu:
        layer.position_major = gathered_kernel.preferred_layout(len(index.slots), layer.k.shape[1]) == "positions"
        if layer.position_major:
            layer.grow(layer.capacity)


class _BeamStep:
    """What the layers of one step share: where hypotheses write, and what they may see."""

    def __init__(self, index: BeamIndex, position: int) -> None:
        self.index, self.start = index, index.start(position)
        self._mask: Listed | None = None

    @property
    def mask(self) -> Listed:
        if self._mask is None:
            self._mask = self.index.mask()
        return self._mask


@dataclass(frozen=True, slots=True)
class BeamLayerCache(LayerCache):
    """One layer's buffers during a step of hypotheses that share them."""

    step: _BeamStep

    @property
    def hypotheses(self) -> int:
        return self.step.index.count

    @property
    def visible(self) -> Listed:
        return self.step.mask

    def update(self, args: AttendArgs) -> AttendArgs:
        index = self.step.index
        k, v = self.buffers.write(
            join_hypotheses(args.k, index.count), join_hypotheses(args.v, index.count), self.at, self.used
        )
        if args.bias is None and isinstance(args.mask, Causal):
            return BeamAttendArgs(join_hypotheses(args.q, index.count), k, v, self.step.mask, beam=index, rows=args)
        return _per_hypothesis(args, k, v, index)


@dataclass(slots=True)
class BeamAttendArgs(AttendArgs):
    """Self-attention in which the hypotheses of a row are queries over the keys that they share."""

    beam: BeamIndex = field(kw_only=True)
    rows: AttendArgs = field(kw_only=True)  # the same attention before hypotheses were joined

    @property
    def hypotheses(self) -> int:
        return self.beam.count

    @property
    def key_index(self) -> Tensor:
        return self.beam.keys()

    def per_row(self) -> AttendArgs:
        return _per_hypothesis(self.rows, self.k, self.v, self.beam)

    def as_rows(self, x_BTD: Tensor) -> Tensor:
        return _as_rows(x_BTD, self.beam.count)

    def rows_of(self, x_NHTE: Tensor) -> Tensor:
        return split_hypotheses(x_NHTE, self.beam.count)


def _per_hypothesis(rows: AttendArgs, k: Tensor, v: Tensor, index: BeamIndex) -> AttendArgs:
    k, v = index.per_hypothesis(k), index.per_hypothesis(v)
    return AttendArgs(rows.q, k, v, rows.mask, rows.bias, rows.offset)


@dataclass(slots=True)
class SharedSourceArgs(AttendArgs):
    """Cross-attention in which the hypotheses of a source are queries over its keys."""

    count: int = field(kw_only=True)
    rows: AttendArgs = field(kw_only=True)  # the same attention before hypotheses were joined

    @classmethod
    def of(cls, rows: AttendArgs, count: int) -> SharedSourceArgs:
        """Queries (N·count, H, T, E) over keys and values (N, G, S, E)."""
        return cls(join_hypotheses(rows.q, count), rows.k, rows.v, rows.mask, count=count, rows=rows)

    @property
    def hypotheses(self) -> int:
        return self.count

    def per_row(self) -> AttendArgs:
        mask = self.mask
        k, v = (x.repeat_interleave(self.count, 0) for x in (self.k, self.v))
        mask = Lengths(mask.lengths.repeat_interleave(self.count)) if isinstance(mask, Lengths) else mask
        return AttendArgs(self.rows.q, k, v, mask)

    def as_rows(self, x_BTD: Tensor) -> Tensor:
        return _as_rows(x_BTD, self.count)

    def rows_of(self, x_NHTE: Tensor) -> Tensor:
        return split_hypotheses(x_NHTE, self.count)


def join_hypotheses(x_BHTE: Tensor, hypotheses: int) -> Tensor:
    """The hypotheses of a row as its queries or keys: (N·hypotheses, H, T, E) -> (N, H, hypotheses·T, E)."""
    rows: Tensor = x_BHTE.unflatten(0, (-1, hypotheses))
    return rows.transpose(1, 2).flatten(2, 3)


def split_hypotheses(x_NHTE: Tensor, hypotheses: int) -> Tensor:
    """What `join_hypotheses` joined: (N, H, hypotheses·T, E) -> (N·hypotheses, H, T, E)."""
    each: Tensor = x_NHTE.unflatten(2, (hypotheses, -1))
    return each.transpose(1, 2).flatten(0, 1)


def _as_rows(x_NTD: Tensor, hypotheses: int) -> Tensor:
    """(N, hypotheses·T, D) -> (N·hypotheses, T, D)."""
    rows, queries, width = x_NTD.shape
    return x_NTD.view(rows * hypotheses, queries // hypotheses, width)


def selected_sources(rows_B: Tensor, hypotheses: int) -> tuple[Tensor, int] | None:
    """The sources of selected rows, of which each source has `hypotheses`, and how many each keeps if all keep as many.

    Reads the row numbers: None if they are not on a CPU.
    """
    if rows_B.device.type != "cpu" or not len(rows_B):
        return None
    kept, counts = torch.unique_consecutive(rows_B // hypotheses, return_counts=True)
    return (kept, int(counts[0])) if bool((counts == counts[0]).all()) else None
