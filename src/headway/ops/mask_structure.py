"""The sparsity structure of a mask, for kernels that skip what is masked out.

Every kernel takes from here which (query, key) pairs it has to visit; whether a visited pair is allowed, the mask's own
formula decides. There are three descriptions, from the general to the special:

- `MaskStructure`: per head the diagonal band that bounds j - i, and the global tokens that lie outside the bands. Any
  mask has one; the band may be infinite. For `banded`, `flex` and the choice of a kernel.
- `BandMask`: a mask that *equals* a band, cut off at each row's length, so that no formula has to be evaluated. For the
  Triton kernel `flash`.
- `MarkedTokens`, `QuerySubset`: the global tokens of each row as indices, and a mask restricted to some queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headway.ops.biases import Bias
from headway.ops.masks import And, Causal, Form, Global, JoinedMask, Lengths, Mask, Or, Window

# --- bands that bound a mask ---


@dataclass(frozen=True, slots=True)
class Band:
    """A diagonal band, possibly dilated: low <= j - i <= high and j - i = phase modulo step."""

    low: float = -math.inf
    high: float = math.inf
    step: int = 1
    phase: int = 0

    @property
    def finite(self) -> bool:
        """Whether it is bounded on both sides; an empty band is."""
        return self.low > -math.inf and self.high < math.inf

    @property
    def empty(self) -> bool:
        """Whether it contains no pair."""
        return self.low > self.high

    @property
    def width(self) -> float:
        """Number of keys per query."""
        return 0 if self.empty else (self.high - self.low) // self.step + 1


EMPTY_BAND = Band(math.inf, -math.inf)


def band_of(mask: Mask, head: int, without: Global | None = None) -> Band:
    """A band that contains all pairs a head may attend to, except those that the part `without` allows."""
    if mask is without:
        return EMPTY_BAND
    if isinstance(mask, Window):
        window = mask.of_head(head)
        if isinstance(window.offset, Tensor):
            return Band()
        assert isinstance(window.dilation, int)
        return Band(*window.reach(), window.dilation, window.offset % window.dilation)
    if not isinstance(mask, JoinedMask):
        return Band(*mask.reach())
    parts = [band_of(part, head, without) for part in mask.parts]
    if isinstance(mask, And):
        strict = max(parts, key=lambda part: part.step)
        low, high = max(part.low for part in parts), min(part.high for part in parts)
        return Band(low, high, strict.step, strict.phase) if low <= high else EMPTY_BAND
    assert isinstance(mask, Or)
    parts = [part for part in parts if not part.empty]
    if not parts:
        return EMPTY_BAND
    steps = {(part.step, part.phase) for part in parts}
    return Band(min(p.low for p in parts), max(p.high for p in parts), *(steps.pop() if len(steps) == 1 else (1, 0)))


@dataclass(frozen=True, slots=True)
class MaskStructure:
    """The bands of a mask with the heads that share each, and the global tokens outside the bands."""

    bands: dict[Band, list[int]]
    global_tokens: Global | None

    @classmethod
    def of(cls, mask: Mask, heads: int) -> MaskStructure:
        """The structure of a mask, cached on it.

        If the bands are finite by themselves, as under a Window combined by &, they are all; otherwise a single
        `Global` part is separated from them.
        """
        if isinstance(mask, Global):
            return cls._analyse(mask, heads)  # the cached value would hold a reference to the mask it is cached on
        return mask.once(("structure", heads), lambda: cls._analyse(mask, heads))

    @classmethod
    def _analyse(cls, mask: Mask, heads: int) -> MaskStructure:
        whole, tokens = cls._without(mask, heads, None), globals_of(mask)
        if whole.finite or len(tokens) != 1 or isinstance(tokens[0].offset, Tensor):
            return whole
        return cls._without(mask, heads, tokens[0])

    @classmethod
    def _without(cls, mask: Mask, heads: int, tokens: Global | None) -> MaskStructure:
        bands: dict[Band, list[int]] = {}
        by_head = [band_of(mask, head, tokens) for head in range(mask.heads)]
        for head in range(heads):
            bands.setdefault(by_head[head % len(by_head)], []).append(head)
        return cls(bands, tokens)

    @property
    def finite(self) -> bool:
        """Whether every band is bounded on both sides."""
        return all(band.finite for band in self.bands)

    @property
    def width(self) -> float:
        """Largest number of keys per query in a band."""
        return max([0, *(band.width for band in self.bands)])  # torch 2.11 cannot compile max(…, default=0)


# --- masks that are exactly a band ---


@dataclass(frozen=True, slots=True)
class BandMask:
    """Query i attends to keys i + low … i + high (None: unbounded) below its row's length, and to global keys."""

    low: int | None = None
    high: int | None = None
    lengths: Tensor | None = None  # (B,)
    global_tokens: Global | None = None

    def __and__(self, other: BandMask) -> BandMask:
        lows = [x for x in (self.low, other.low) if x is not None]
        highs = [x for x in (self.high, other.high) if x is not None]
        lengths = self.lengths if other.lengths is None else other.lengths
        if self.lengths is not None and other.lengths is not None:
            lengths = self.lengths.minimum(other.lengths)
        low, high = max(lows) if lows else None, min(highs) if highs else None  # torch 2.11 compiles no `default`
        return BandMask(low, high, lengths, self.global_tokens or other.global_tokens)

    def outside(self, i: Tensor, j: Tensor) -> Tensor:
        """Whether key j lies outside the band of query i."""
        beyond = torch.zeros_like(j - i, dtype=torch.bool)
        if self.low is not None:
            beyond |= j < i + self.low
        if self.high is not None:
            beyond |= j > i + self.high
        return beyond


def as_band(mask: Mask | None) -> BandMask | str:
    """The mask as a `BandMask`, or the reason why it is not one; cached on the mask."""
    return BandMask() if mask is None else mask.once("band mask", lambda: _as_band(mask))


def _as_band(mask: Mask) -> BandMask | str:
    if isinstance(mask, Lengths):
        return BandMask(lengths=mask.lengths)
    if isinstance(mask, And):
        return _intersection(mask)
    if isinstance(mask, Or):
        return _band_with_globals(mask)
    if not isinstance(mask, Causal | Window):
        return f"{type(mask).__name__} is not a band; supported: Causal, Window, Lengths, and one Window | Global"
    if not isinstance(mask.offset, int):
        return f"{type(mask).__name__}.offset is a tensor, a band needs a number"
    if isinstance(mask, Causal):
        return BandMask(high=mask.offset)
    if mask.dilation != 1:
        return f"Window has dilation={mask.dilation}, a band must have dilation=1; use kernel='banded'"
    return BandMask(mask.offset - mask.left, mask.offset + mask.ahead)


def _intersection(mask: And) -> BandMask | str:
    whole = BandMask()
    for part in mask.parts:
        found = as_band(part)
        if isinstance(found, str):
            return found
        if found.global_tokens is not None and not all(p is part or isinstance(p, Lengths) for p in mask.parts):
            return "a band with global tokens can be combined only with Lengths"
        whole = whole & found
    return whole


def _band_with_globals(mask: Or) -> BandMask | str:
    tokens = [part for part in mask.parts if isinstance(part, Global)]
    bands = [as_band(part) for part in mask.parts if not isinstance(part, Global)]
    if len(tokens) != 1 or len(bands) != 1:
        return "masks combined by | are a band only as one Window | Global"
    (token,), (band,) = tokens, bands
    if isinstance(band, str):
        return band
    if band.lengths is not None or not isinstance(token.offset, int):
        return "Window | Global needs an integer offset, and Lengths outside of it ((Window | Global) & Lengths)"
    return BandMask(band.low, band.high, global_tokens=token)


# --- global tokens ---


def globals_of(mask: Mask | None) -> tuple[Global, ...]:
    """The `Global` parts of a mask."""

    def walk(part: Mask) -> Iterator[Global]:
        if isinstance(part, Global):
            yield part
        elif isinstance(part, JoinedMask):
            for each in part.parts:
                yield from walk(each)

    return () if mask is None else tuple(walk(mask))


def global_keys_only(mask: Mask) -> Mask:
    """The mask in which global tokens are attended to, but attend to no more than others; cached on the mask."""
    if isinstance(mask, Global):
        return mask.once("global keys only", lambda: replace(mask, seeing=False))
    if isinstance(mask, JoinedMask):

        def make() -> Mask:
            return replace(mask, parts=tuple(global_keys_only(part) for part in mask.parts))

        return mask.once("global keys only", make)
    return mask


def mask_of_global_queries(mask: Mask) -> Mask | None:
    """What remains of a mask for the queries that its `Global` part marks; None: they attend to everything."""
    if isinstance(mask, Global):
        return None if mask.seeing else mask
    if isinstance(mask, JoinedMask):
        return mask.once("global queries", lambda: _mask_of_global_queries(mask))
    return mask


def _mask_of_global_queries(mask: JoinedMask) -> Mask | None:
    parts = tuple(mask_of_global_queries(part) for part in mask.parts)
    left = tuple(part for part in parts if part is not None)
    if not left or (isinstance(mask, Or) and len(left) < len(parts)):
        return None
    return left[0] if len(left) == 1 else replace(mask, parts=left)


@dataclass(frozen=True, slots=True)
class MarkedTokens:
    """Indices of the marked tokens of each row, N per row; shorter rows are padded with unmarked tokens."""

    index: Tensor  # (B, N)
    rows: Tensor  # (n,) for the real ones: batch row,
    slots: Tensor  # (n,) column in `index`,
    positions: Tensor  # (n,) and position in the sequence
    padded_index: Tensor  # (B, N) int32: `index`, with -1 for padding

    @classmethod
    def of(cls, marks_BT: Tensor) -> MarkedTokens:
        """The indices of boolean marks. On a GPU this synchronises once: the marks are counted on the host."""
        marks = marks_BT.cpu()
        each: list[list[int]] = [[] for _ in range(len(marks))]  # Python lists: for a few numbers faster than tensors
        for row, position in marks.nonzero().tolist():
            each[row].append(position)
        most = max(map(len, each), default=0)
        fill = [_unmarked(marks[row], most - len(mine)) for row, mine in enumerate(each)]
        columns = (
            [position for mine, others in zip(each, fill, strict=True) for position in mine + others],
            [row for row, mine in enumerate(each) for _ in mine],
            [slot for mine in each for slot in range(len(mine))],
            [position for mine in each for position in mine],
        )
        joined = torch.tensor([number for column in columns for number in column], dtype=torch.long)
        padded = torch.tensor([mine + [-1] * (most - len(mine)) for mine in each], dtype=torch.int)
        joined, padded = (x.to(marks_BT.device, non_blocking=True) for x in (joined, padded))
        index, rows, slots, positions = joined.split([len(column) for column in columns])
        return cls(index.view(len(marks), most), rows, slots, positions, padded.view(len(marks), most))

    @property
    def real(self) -> Tensor:
        """(B, N): which entries of `index` are marked tokens."""
        return self.padded_index >= 0

    @property
    def count(self) -> int:
        """N, the largest number of marked tokens in a row."""
        return self.index.shape[1]

    def gather(self, x_BHTE: Tensor) -> Tensor:
        """(B, H, T, E) -> (B, H, N, E)."""
        shape = (-1, x_BHTE.shape[1], -1, x_BHTE.shape[3])
        return x_BHTE.gather(2, self.index[:, None, :, None].expand(*shape))

    def scatter(self, x_BHTE: Tensor, marked_BHNE: Tensor) -> Tensor:
        """A copy of x with the marked tokens replaced."""
        new = self._flat(x_BHTE, marked_BHNE)
        return x_BHTE.transpose(1, 2).index_put((self.rows, self.positions), new).transpose(1, 2)

    def scatter_(self, x_BHTE: Tensor, marked_BHNE: Tensor) -> Tensor:
        """`scatter` in place, except where autograd needs a copy."""
        if torch.is_grad_enabled() and (x_BHTE.requires_grad or marked_BHNE.requires_grad):
            return self.scatter(x_BHTE, marked_BHNE)
        x_BHTE.transpose(1, 2).index_put_((self.rows, self.positions), self._flat(x_BHTE, marked_BHNE))
        return x_BHTE

    def _flat(self, x_BHTE: Tensor, marked_BHNE: Tensor) -> Tensor:
        """(n, H, E): the values for `rows` and `positions`."""
        marked_BNHE = marked_BHNE.transpose(1, 2).to(x_BHTE.dtype)
        if len(self.rows) == self.index.numel():  # no row is padded
            return marked_BNHE.flatten(0, 1)
        return marked_BNHE[self.rows, self.slots]


def _unmarked(marks_T: Tensor, count: int) -> list[int]:
    """The first `count` tokens that are not marked."""
    return (~marks_T).nonzero()[:count, 0].tolist() if count else []


def marked_keys(token: Global) -> MarkedTokens:
    """The marked keys, cached on the mask for all layers that share it."""
    return token.once("keys", lambda: MarkedTokens.of(token.marks))


def marked_queries(token: Global, queries: int) -> MarkedTokens:
    """The marked tokens among `queries` queries."""
    start = token.offset
    assert isinstance(start, int)
    if not start and queries == token.marks.shape[1]:
        return marked_keys(token)
    return token.once(("queries", queries), lambda: MarkedTokens.of(token.marks[:, start : start + queries]))


@dataclass(frozen=True, eq=False)
class QuerySubset(Mask):
    """Another mask restricted to some of its queries: query i here is query `index[b, i]` there."""

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
        """Cached on the underlying mask; `index` is kept alive with it, since its id is part of the key."""
        return self.mask.once(("subset", id(self.index), key), lambda: (self.index, make()))[1]


@dataclass(frozen=True, eq=False)
class QuerySubsetBias(Bias):
    """Another bias restricted to some of its queries, as `QuerySubset`."""

    bias: Bias
    index: Tensor  # (B, N)

    def term(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.bias.term(b, h, self.index[b, i], j)

    def check(self, rows: int, heads: int, queries: int) -> None:
        """Nothing to check: the underlying bias was checked with all of its queries."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.bias.tensors
