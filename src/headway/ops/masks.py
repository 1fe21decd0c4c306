"""Attention masks as values. True means *may attend*, everywhere.

A mask is written once, as a formula over indices (`allowed`). Evaluated on a full grid the formula is the dense mask,
on the strips of a band it serves the banded kernel, on scalars it is FlexAttention's `mask_mod`. Integers in a mask are
its structure (hashable: they key caches and compilations), tensors are its data.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar, cast

import torch
from torch import Tensor

from headway.display import code, grid, sentence
from headway.errors import ShapeError

Offset = int | Tensor  # position of query 0 among the keys: a number, a 0-d tensor, or one per batch row
Span = tuple[float, float]
Form = TypeVar("Form")
DRAWN = 12  # queries and keys of a mask of any size in a notebook
LARGEST_DRAWN = 128  # a larger mask is named only


def query_positions(index: Tensor, offset: Offset, b: Tensor) -> Tensor:
    """Positions of the queries `index` when query 0 is at position `offset`, which may differ by batch row `b`."""
    if isinstance(offset, Tensor) and offset.ndim:
        return index + offset[b]
    return index + offset


def check_offset(owner: object, offset: Offset, rows: int) -> None:
    """Raise ShapeError unless an offset is a number or has one entry per batch row."""
    if isinstance(offset, Tensor) and offset.ndim and tuple(offset.shape) != (rows,):
        shape = tuple(offset.shape)
        raise ShapeError(f"{type(owner).__name__}.offset has shape {shape}, expected a number or ({rows},)")


def index_grid(
    rows: int, heads: int, queries: int, keys: int, device: torch.device | str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Indices b, h, i, j that broadcast to (B, H, T, S)."""
    sizes = (rows, heads, queries, keys)
    b, h, i, j = (
        torch.arange(n, device=device).view([-1 if d == axis else 1 for d in range(4)]) for axis, n in enumerate(sizes)
    )
    return b, h, i, j


def structure(value: Any) -> Hashable:
    """A value without the contents of its tensors: hashable, equal for masks that compile to the same code."""
    if isinstance(value, Tensor):
        return ("tensor", value.ndim)
    if isinstance(value, tuple):
        return tuple(structure(each) for each in value)
    if isinstance(value, Mask):
        return (type(value).__name__, *(structure(getattr(value, f.name)) for f in fields(value)))
    return value  # type: ignore[no-any-return]


def _tensors(value: Any) -> tuple[Tensor, ...]:
    if isinstance(value, Tensor):
        return (value,)
    if isinstance(value, Mask):
        value = tuple(getattr(value, f.name) for f in fields(value))
    if isinstance(value, tuple):
        return tuple(tensor for each in value for tensor in _tensors(each))
    return ()


@dataclass(frozen=True, eq=False)
class Mask:
    """Which query may attend to which key; combine masks with `&` and `|`."""

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Whether query i may attend to key j in batch row b, head h; the index tensors broadcast together."""
        raise NotImplementedError

    def reach(self) -> Span:
        """Bounds (low, high) on j - i outside which nothing is allowed, for any contents of the tensors."""
        return -math.inf, math.inf

    @property
    def heads(self) -> int:
        """Number of heads with a mask of their own; 1 if all heads share one."""
        return 1

    def at(self, offset: Offset) -> Self:
        """The same mask for queries that begin at position `offset`, the length of the KV cache."""
        return self

    def check(self, rows: int, queries: int, keys: int) -> None:
        """Raise ShapeError if the mask's tensors do not fit a call of these sizes."""

    def once(self, key: Hashable, make: Callable[[], Form]) -> Form:
        """Result of `make`, cached on this mask under `key`, so that layers sharing the mask compute it once.

        The mask owns its tensors: changing one in place afterwards does not update what was cached.
        """
        if torch.compiler.is_compiling():
            return make()
        forms = self.__dict__.setdefault("_forms", {})
        key = (key, torch.is_inference_mode_enabled())  # autograd cannot save a tensor made in inference mode
        if key not in forms:
            forms[key] = make()
        return cast(Form, forms[key])

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The data of the mask."""
        return _tensors(self)

    def __and__(self, other: Mask) -> Mask:
        return And((*_parts(self, And), *_parts(other, And)))

    def __or__(self, other: Mask) -> Mask:
        return Or((*_parts(self, Or), *_parts(other, Or)))

    def __hash__(self) -> int:
        return hash(structure(self))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Mask)
            and structure(self) == structure(other)
            and all(map(torch.equal, self.tensors, other.tensors))
        )

    def dense(self, queries: int, keys: int, device: torch.device | str | None = None) -> Tensor:
        """The boolean mask (B or 1, H or 1, T or 1, S), broadcastable to the scores."""
        rows = next((t.shape[0] for t in self.tensors if t.ndim), 1)
        if device is None:
            device = next((t.device for t in self.tensors), torch.device("cpu"))
        return self.allowed(*index_grid(rows, self.heads, queries, keys, device))

    @property
    def sizes(self) -> tuple[int, int] | None:
        """The queries and keys that its tensors are for; None for a mask of any size."""
        return None

    def show(self, queries: int, keys: int | None = None, row: int = 0) -> str:
        """Draw the mask as text, one line per query: ■ may attend, · may not."""
        cells = self._cells(queries, queries if keys is None else keys, row)
        return "\n".join(" ".join("■" if cell else "·" for cell in line) for line in cells)

    def _cells(self, queries: int, keys: int, row: int) -> list[list[bool]]:
        """The mask of one batch row and the first head."""
        self.check(max((t.shape[0] for t in self.tensors if t.ndim), default=1), queries, keys)
        dense = self.dense(queries, keys, "cpu") if not self.tensors else self.dense(queries, keys)
        picture: list[list[bool]] = dense[row if dense.shape[0] > 1 else 0, 0].expand(queries, keys).tolist()
        return picture

    def _repr_html_(self) -> str:
        """For notebooks: the mask of the first batch row and head, drawn."""
        queries, keys = self.sizes or (DRAWN, DRAWN)
        if max(queries, keys) > LARGEST_DRAWN:
            return code(repr(self))
        try:
            cells = self._cells(queries, keys, 0)
        except ShapeError:  # parts for calls of other sizes
            return code(repr(self))
        return grid([list(map(float, line)) for line in cells]) + sentence(repr(self))


def _parts(mask: Mask, kind: type[And] | type[Or]) -> tuple[Mask, ...]:
    value: object = mask  # `&` and `|` accept any operand at run time
    if not isinstance(value, Mask):
        raise ShapeError(f"a mask cannot be combined with a {type(value).__name__}, only with another mask")
    return mask.parts if isinstance(mask, kind) else (mask,)


@dataclass(frozen=True, eq=False)
class JoinedMask(Mask):
    """Several masks combined by `&` (`And`) or `|` (`Or`)."""

    parts: tuple[Mask, ...]

    @property
    def sizes(self) -> tuple[int, int] | None:
        known = [each for part in self.parts if (each := part.sizes) is not None]
        return (max(queries for queries, _ in known), max(keys for _, keys in known)) if known else None

    def _join(self, how: Callable[[Tensor, Tensor], Tensor], b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return functools.reduce(how, (part.allowed(b, h, i, j) for part in self.parts))

    @property
    def heads(self) -> int:
        return max(part.heads for part in self.parts)

    def at(self, offset: Offset) -> Self:
        return replace(self, parts=tuple(part.at(offset) for part in self.parts))

    def check(self, rows: int, queries: int, keys: int) -> None:
        for part in self.parts:
            part.check(rows, queries, keys)


@dataclass(frozen=True, eq=False)
class And(JoinedMask):
    """Allowed where every part allows."""

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self._join(operator.and_, b, h, i, j)

    def reach(self) -> Span:
        spans = [part.reach() for part in self.parts]
        return max(low for low, _ in spans), min(high for _, high in spans)


@dataclass(frozen=True, eq=False)
class Or(JoinedMask):
    """Allowed where any part allows."""

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self._join(operator.or_, b, h, i, j)

    def reach(self) -> Span:
        spans = [part.reach() for part in self.parts]
        return min(low for low, _ in spans), max(high for _, high in spans)


@dataclass(frozen=True, eq=False)
class _OffsetMask(Mask):
    """A mask over positions: query i is at position i + offset."""

    offset: Offset = field(default=0, kw_only=True)

    def at(self, offset: Offset) -> Self:
        return replace(self, offset=offset)

    def check(self, rows: int, queries: int, keys: int) -> None:
        check_offset(self, self.offset, rows)

    def _shifted(self, low: float, high: float) -> Span:
        if isinstance(self.offset, Tensor):
            return -math.inf, math.inf
        return self.offset + low, self.offset + high


@dataclass(frozen=True, eq=False)
class Causal(_OffsetMask):
    """A query attends to its own position and those before."""

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= query_positions(i, self.offset, b)

    def reach(self) -> Span:
        return self._shifted(-math.inf, 0)


@dataclass(frozen=True, eq=False)
class Window(_OffsetMask):
    """Sliding window: a query attends to itself, `left` keys before and `right` keys after, `dilation` apart.

    Both counts are one-sided radii: `Window(256)` is what Hugging Face's Longformer calls `attention_window=512`.
    """

    left: int
    right: int | None = None  # None: same as left
    dilation: int | tuple[int, ...] = 1  # for all heads, or one per head

    def __post_init__(self) -> None:
        if self.left < 0 or self.ahead < 0 or not self._dilations or min(self._dilations) < 1:
            raise ShapeError(f"{self}: left and right must be >= 0, dilation >= 1")

    @property
    def _dilations(self) -> tuple[int, ...]:
        return self.dilation if isinstance(self.dilation, tuple) else (self.dilation,)

    @property
    def heads(self) -> int:
        return len(self._dilations)

    def of_head(self, head: int) -> Window:
        """The window of one head."""
        return replace(self, dilation=self._dilations[head % self.heads])

    @property
    def ahead(self) -> int:
        """Keys after the query, in steps of the dilation."""
        return self.left if self.right is None else self.right

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        distance = j - query_positions(i, self.offset, b)
        step: int | Tensor = self._dilations[0]
        for head, dilation in enumerate(self._dilations):  # no lookup table: FlexAttention has to compile this
            if dilation != self._dilations[0]:
                step = torch.where(h == head, dilation, step)
        near = (distance >= -self.left * step) & (distance <= self.ahead * step)
        return near & (distance % step == 0) if max(self._dilations) > 1 else near

    def reach(self) -> Span:
        return self._shifted(-self.left * max(self._dilations), self.ahead * max(self._dilations))


@dataclass(frozen=True, eq=False)
class NotSelf(_OffsetMask):
    """A query attends to every position except its own (diagonal masking: Lee et al. 2021, locality self-attention)."""

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j != query_positions(i, self.offset, b)


def _check_rows(mask: str, tensor: Tensor, rows: int) -> None:
    if tuple(tensor.shape) != (rows,):
        raise ShapeError(f"mask {mask} has shape {tuple(tensor.shape)}, the batch needs ({rows},)")


@dataclass(frozen=True, eq=False)
class Table(Mask):
    """An arbitrary mask as a tensor: `table` (B, T, S) boolean."""

    table: Tensor

    @property
    def sizes(self) -> tuple[int, int]:
        return self.table.shape[-2], self.table.shape[-1]

    def check(self, rows: int, queries: int, keys: int) -> None:
        if tuple(self.table.shape) != (rows, queries, keys) or self.table.dtype != torch.bool:
            found = f"{tuple(self.table.shape)} of {self.table.dtype}"
            raise ShapeError(
                f"mask Table has a table {found}, the call needs ({rows}, {queries}, {keys}) of torch.bool"
            )

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.table[b, i, j]


@dataclass(frozen=True, eq=False)
class Listed(Mask):
    """Each query attends to its own list of key indices: `keys` (B, T, P) integers without repetition."""

    keys: Tensor

    @property
    def sizes(self) -> tuple[int, int]:
        return self.keys.shape[1], int(self.keys.max()) + 1 if self.keys.numel() else 1

    def check(self, rows: int, queries: int, keys: int) -> None:
        if self.keys.ndim != 3 or tuple(self.keys.shape[:2]) != (rows, queries):
            found = tuple(self.keys.shape)
            raise ShapeError(f"mask Listed has keys of shape {found}, the call needs ({rows}, {queries}, any number)")

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (self.keys[b, i] == j.unsqueeze(-1)).any(-1)


@dataclass(frozen=True, eq=False)
class Lengths(Mask):
    """Padding mask: row b has `lengths[b]` real keys, the rest are padding."""

    lengths: Tensor  # (B,) integers

    @property
    def sizes(self) -> tuple[int, int]:
        longest = int(self.lengths.max()) if self.lengths.numel() else 1
        return longest, longest

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j < self.lengths[b]

    def real(self, keys: int) -> Tensor:
        """(B, S): which of `keys` keys are real."""

        def make() -> Tensor:
            return torch.arange(keys, device=self.lengths.device) < self.lengths.unsqueeze(-1)

        return self.once(("real", keys), make)

    @property
    def none_empty(self) -> bool:
        """Whether every row is known to have a key. Callers that know the lengths can set it through `once`."""

        def check() -> bool:  # on a CPU only: reading the values of a CUDA tensor would synchronise
            readable = self.lengths.device.type == "cpu" and not torch.compiler.is_compiling()
            return readable and bool((self.lengths > 0).all())

        return self.once("none empty", check)

    def check(self, rows: int, queries: int, keys: int) -> None:
        _check_rows("Lengths", self.lengths, rows)


@dataclass(frozen=True, eq=False)
class Prefix(_OffsetMask):
    """Prefix LM: every query attends to the first `length` keys, and causally to the rest."""

    length: Offset  # a number, or one per batch row

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        length = self.length[b] if isinstance(self.length, Tensor) and self.length.ndim else self.length
        return (j < length) | (j <= query_positions(i, self.offset, b))

    def check(self, rows: int, queries: int, keys: int) -> None:
        super().check(rows, queries, keys)
        if isinstance(self.length, Tensor) and self.length.ndim:
            _check_rows("Prefix.length", self.length, rows)

    def reach(self) -> Span:
        if isinstance(self.length, Tensor):
            return -math.inf, math.inf
        return -math.inf, max(self._shifted(0, 0)[1], self.length - 1)


@dataclass(frozen=True, eq=False)
class _LabelMask(_OffsetMask):
    """A mask over labels of the keys; a query has the label of the key at its own position."""

    marks: Tensor  # (B, S)

    @property
    def sizes(self) -> tuple[int, int]:
        return self.marks.shape[-1], self.marks.shape[-1]

    def check(self, rows: int, queries: int, keys: int) -> None:
        super().check(rows, queries, keys)
        name = type(self).__name__
        if tuple(self.marks.shape) != (rows, keys):
            raise ShapeError(f"mask {name} has shape {tuple(self.marks.shape)}, the call needs ({rows}, {keys})")
        if isinstance(self.offset, int) and queries and not 0 <= self.offset <= keys - queries:
            which, where = ("first", self.offset) if self.offset < 0 else ("last", self.offset + queries - 1)
            raise ShapeError(f"mask {name} labels {keys} keys, but the {which} query is at position {where}")


@dataclass(frozen=True, eq=False)
class Packed(_LabelMask):
    """Packed documents: a query attends only to keys with its own segment number, `marks` (B, S)."""

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.marks[b, query_positions(i, self.offset, b)] == self.marks[b, j]


@dataclass(frozen=True, eq=False)
class Global(_LabelMask):
    """Global tokens (Beltagy et al. 2020, section 3.1): `marks` (B, S) boolean.

    Marked positions attend to every token and every token attends to them; with `seeing=False` only the latter.
    """

    seeing: bool = True

    @classmethod
    def of(cls, places: Sequence[Sequence[int]], keys: int) -> Global:
        """Marks given as one list of positions per batch row, for `keys` tokens. Raises ShapeError if out of range."""
        marks = torch.zeros(len(places), keys, dtype=torch.bool)
        for row, mine in enumerate(places):
            for position in mine:
                if not 0 <= position < keys:
                    raise ShapeError(f"global token {position} of row {row}, allowed: 0 to {keys - 1}")
                marks[row, position] = True
        return cls(marks)

    def check(self, rows: int, queries: int, keys: int) -> None:
        super().check(rows, queries, keys)
        if self.marks.dtype != torch.bool:
            raise ShapeError(f"mask Global has marks of {self.marks.dtype}, expected torch.bool")

    def allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        seen = self.marks[b, j]
        return self.marks[b, query_positions(i, self.offset, b)] | seen if self.seeing else seen
