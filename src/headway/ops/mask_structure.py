"""What a mask looks like from afar: a band around the diagonal, and tokens that are seen from, and see, everywhere.

Kernels that skip what is masked away ask here where to look; what is allowed there, the mask's own formula says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headway.ops.biases import Bias
from headway.ops.masks import And, Form, Global, Mask, Or, Window, _Joined


@dataclass(frozen=True, slots=True)
class Band:
    """Bounds on j - i, and the steps between: j - i = phase modulo step."""

    low: float = -math.inf
    high: float = math.inf
    step: int = 1
    phase: int = 0

    @property
    def finite(self) -> bool:
        """Does it end on both sides? (One that holds nothing does.)"""
        return self.low > -math.inf and self.high < math.inf

    @property
    def empty(self) -> bool:
        """Does it hold nothing?"""
        return self.low > self.high

    @property
    def width(self) -> float:
        """How many keys of it a query meets."""
        return 0 if self.empty else (self.high - self.low) // self.step + 1


NOTHING = Band(math.inf, -math.inf)


def band(mask: Mask, head: int, apart: Global | None = None) -> Band:
    """Where a pair of tokens may lie that `apart` does not mark."""
    if mask is apart:
        return NOTHING
    if isinstance(mask, Window):
        window = mask.of_head(head)
        if isinstance(window.offset, Tensor):
            return Band()
        assert isinstance(window.dilation, int)
        return Band(*window.reach(), window.dilation, window.offset % window.dilation)
    if not isinstance(mask, _Joined):
        return Band(*mask.reach())
    parts = [band(part, head, apart) for part in mask.parts]
    if isinstance(mask, And):
        strict = max(parts, key=lambda part: part.step)
        low, high = max(part.low for part in parts), min(part.high for part in parts)
        return Band(low, high, strict.step, strict.phase) if low <= high else NOTHING
    assert isinstance(mask, Or)
    parts = [part for part in parts if not part.empty]
    if not parts:
        return NOTHING
    steps = {(part.step, part.phase) for part in parts}
    return Band(min(p.low for p in parts), max(p.high for p in parts), *(steps.pop() if len(steps) == 1 else (1, 0)))


def globals_of(mask: Mask | None) -> tuple[Global, ...]:
    """The `Global` parts of a mask."""

    def walk(part: Mask) -> Iterator[Global]:
        if isinstance(part, Global):
            yield part
        elif isinstance(part, _Joined):
            for each in part.parts:
                yield from walk(each)

    return () if mask is None else tuple(walk(mask))


def one_way(mask: Mask) -> Mask:
    """The mask in which global tokens are seen, but see no more than others do; made once for all that share it."""
    if isinstance(mask, Global):
        return mask.once("one way", lambda: replace(mask, seeing=False))
    if isinstance(mask, _Joined):
        return mask.once("one way", lambda: replace(mask, parts=tuple(one_way(part) for part in mask.parts)))
    return mask


def of_marked(mask: Mask) -> Mask | None:
    """What is left of a mask for queries that its `Global` part marks; None: they see everything."""
    if isinstance(mask, Global):
        return None if mask.seeing else mask
    return mask.once("of marked", lambda: _of_marked(mask)) if isinstance(mask, _Joined) else mask


def _of_marked(mask: _Joined) -> Mask | None:
    parts = tuple(of_marked(part) for part in mask.parts)
    left = tuple(part for part in parts if part is not None)
    if not left or (isinstance(mask, Or) and len(left) < len(parts)):
        return None
    return left[0] if len(left) == 1 else replace(mask, parts=left)


@dataclass(frozen=True, slots=True)
class Shape:
    """The bands there are with the heads that share each, and the global tokens that stand apart from them."""

    bands: dict[Band, list[int]]
    apart: Global | None

    @property
    def finite(self) -> bool:
        """Does every band end on both sides?"""
        return all(band.finite for band in self.bands)

    @property
    def width(self) -> float:
        """How many keys of its band a query meets at most."""
        return max([0, *(band.width for band in self.bands)])  # torch 2.11 compiles no max(…, default=0)


def shape(mask: Mask, heads: int) -> Shape:
    """Bands alone where they end by themselves, as under a Window joined by &; else with one `Global` set apart."""
    if isinstance(mask, Global):
        return _shape(mask, heads)  # it would keep itself alive
    return mask.once(("shape", heads), lambda: _shape(mask, heads))


def _shape(mask: Mask, heads: int) -> Shape:
    def found(apart: Global | None) -> Shape:
        bands: dict[Band, list[int]] = {}
        kinds = [band(mask, head, apart) for head in range(mask.heads)]
        for head in range(heads):
            bands.setdefault(kinds[head % len(kinds)], []).append(head)
        return Shape(bands, apart)

    whole, tokens = found(None), globals_of(mask)
    if whole.finite or len(tokens) != 1 or isinstance(tokens[0].offset, Tensor):
        return whole
    return found(tokens[0])


@dataclass(frozen=True, slots=True)
class Marked:
    """The marked tokens of each row, side by side; rows that have fewer are filled up with tokens that are not."""

    index: Tensor  # (B, N)
    rows: Tensor  # of the real ones: the batch row,
    slots: Tensor  # the place in `index`,
    places: Tensor  # and the place in the text
    found: Tensor  # (B, N) int32: `index`, with -1 for what fills up a row

    @classmethod
    def of(cls, marks_BT: Tensor) -> Marked:
        """Where the marks are. On a GPU this waits for the device, once: they are counted outside it."""
        marks = marks_BT.cpu()
        each: list[list[int]] = [[] for _ in range(len(marks))]  # lists: a few numbers, and a tensor's call costs many
        for row, place in marks.nonzero().tolist():
            each[row].append(place)
        most = max(map(len, each), default=0)
        fill = [_unmarked(marks[row], most - len(mine)) for row, mine in enumerate(each)]
        columns = (
            [place for mine, others in zip(each, fill, strict=True) for place in mine + others],
            [row for row, mine in enumerate(each) for _ in mine],
            [slot for mine in each for slot in range(len(mine))],
            [place for mine in each for place in mine],
        )
        joined = torch.tensor([number for column in columns for number in column], dtype=torch.long)
        found = torch.tensor([mine + [-1] * (most - len(mine)) for mine in each], dtype=torch.int)
        joined, found = (x.to(marks_BT.device, non_blocking=True) for x in (joined, found))
        index, rows, slots, places = joined.split([len(column) for column in columns])
        return cls(index.view(len(marks), most), rows, slots, places, found.view(len(marks), most))

    @property
    def real(self) -> Tensor:
        """(B, N): which of `index` are marked."""
        return self.found >= 0

    @property
    def count(self) -> int:
        """N, the most that a row has."""
        return self.index.shape[1]

    def pick(self, x_BHTE: Tensor) -> Tensor:
        """(B, H, T, E) -> (B, H, N, E)."""
        shape = (-1, x_BHTE.shape[1], -1, x_BHTE.shape[3])
        return x_BHTE.gather(2, self.index[:, None, :, None].expand(*shape))

    def put(self, x_BHTE: Tensor, picked_BHNE: Tensor) -> Tensor:
        """x with what `pick` would find there replaced."""
        new = self._new(x_BHTE, picked_BHNE)
        return x_BHTE.transpose(1, 2).index_put((self.rows, self.places), new).transpose(1, 2)

    def put_into(self, x_BHTE: Tensor, picked_BHNE: Tensor) -> Tensor:
        """The same for an x that nobody else holds: without a copy of it, unless a gradient needs one."""
        if torch.is_grad_enabled() and (x_BHTE.requires_grad or picked_BHNE.requires_grad):
            return self.put(x_BHTE, picked_BHNE)
        x_BHTE.transpose(1, 2).index_put_((self.rows, self.places), self._new(x_BHTE, picked_BHNE))
        return x_BHTE

    def _new(self, x_BHTE: Tensor, picked_BHNE: Tensor) -> Tensor:
        """(n, H, E): what goes to `rows` and `places`."""
        picked_BNHE = picked_BHNE.transpose(1, 2).to(x_BHTE.dtype)
        if len(self.rows) == self.index.numel():  # no row is filled up
            return picked_BNHE.flatten(0, 1)
        return picked_BNHE[self.rows, self.slots]


def _unmarked(marks_T: Tensor, count: int) -> list[int]:
    """The first `count` tokens that are not marked."""
    return (~marks_T).nonzero()[:count, 0].tolist() if count else []


def marked_keys(token: Global) -> Marked:
    """The marked keys, found once for all layers that share the mask."""
    return token.once("keys", lambda: Marked.of(token.marks))


def marked_queries(token: Global, queries: int) -> Marked:
    """The marked ones among `queries` queries."""
    start = token.offset
    assert isinstance(start, int)
    if not start and queries == token.marks.shape[1]:
        return marked_keys(token)
    return token.once(("queries", queries), lambda: Marked.of(token.marks[:, start : start + queries]))


@dataclass(frozen=True, eq=False)
class Picked(Mask):
    """Another mask for some of its queries: query i here is query `index[b, i]` there."""

    mask: Mask
    index: Tensor  # (B, N)

    @property
    def heads(self) -> int:
        return self.mask.heads

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.mask.allowed(b, h, self.index[b, i], j)

    def check(self, rows: int, queries: int, keys: int) -> None:
        self.mask.check(rows, 0, keys)

    def once(self, key: Hashable, make: Callable[[], Form]) -> Form:
        """Kept with the other mask, for all layers that share it; `index` too, by which it is known."""
        return self.mask.once(("picked", id(self.index), key), lambda: (self.index, make()))[1]


@dataclass(frozen=True, eq=False)
class PickedBias(Bias):
    """A bias for the same queries."""

    bias: Bias
    index: Tensor  # (B, N)

    def term(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.bias.term(b, h, self.index[b, i], j)

    def check(self, rows: int, heads: int, queries: int) -> None:
        """Nothing: the bias was checked with all of its queries."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.bias.tensors
