"""What a capture saw: passes, and in a pass that wrote a text, the lines it wrote, each stitched together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import ConfigError
from headway.inspection.tap_names import TapPoint

KEYS = ("k", "v", "global_k", "global_v")  # kinds that run over keys, not over queries
OVER_KEYS = ("bias", "scores", "weights")  # kinds whose last dimension is the keys


class NotCapturedError(ConfigError, KeyError):
    """Asked for what was not captured; a KeyError too, as mappings have it."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would quote it


@dataclass(slots=True)
class Event:
    """One call of the model, on N rows of K tokens: a whole forward pass, or one step of a search."""

    values: dict[str, list[Tensor]] = field(default_factory=dict)
    points: dict[str, TapPoint] = field(default_factory=dict)
    tokens: Tensor | None = None  # (N, K) of a step
    counts: Tensor | None = None  # (N,) how many of them are real; None: all
    parents: Tensor | None = None  # (N,) row of the event before; in the first event of the source
    starts: Tensor | int = 0  # (N,) or one number: the position of the first token
    kept: Tensor | None = None  # which of the K queries were asked for; None: all

    def value(self, name: str) -> Tensor:
        """What was captured, the parts of one text joined."""
        parts, point = self.values[name], self.points[name]
        if len(parts) == 1 or not point.joined or point.kind in KEYS:
            return parts[0]
        return torch.cat(parts, axis_of(point))


@dataclass(frozen=True, slots=True)
class Line:
    """A text that was written, or one that a search looked at."""

    source: int  # row of the source or prompt it belongs to
    rank: int  # among the lines of its row, best first
    chosen: tuple[int, ...]  # what the search gave: without start or prompt, and without the stop token
    read: tuple[int, ...]  # what the model read, start or prompt first; its row t looks from read[t]
    _chain: tuple[tuple[Event, int], ...] = field(repr=False)
    _pass: Pass = field(repr=False)

    def __getitem__(self, name: str) -> Tensor:
        """A captured value without its batch dimension: one row a token read, S as long as the whole line has."""
        if name in self._pass.before.values:
            return self._pass.before.value(name)[self.source]
        parts = [self._part(event, row, name) for event, row in self._chain if name in event.values]
        if not parts:
            raise NotCapturedError(f"{name} was not captured; there is {', '.join(self._pass)}")
        point = self._chain[0][0].points.get(name) or next(e.points[name] for e, _ in self._chain if name in e.points)
        if point.kind in KEYS and point.attention == "cross":
            return parts[0]
        if point.kind in OVER_KEYS:
            # Between a line's words keys stand at their positions; behind its own a cache has room for other rows'.
            keys = len(self.read) if point.attention == "self" else parts[0].shape[-1]
            empty = -torch.inf if point.kind == "scores" else 0.0
            parts = [_padded(part[..., :keys], [*part.shape[:-1], keys], empty) for part in parts]
        return torch.cat(parts, axis_of(point) - 1)

    def _part(self, event: Event, row: int, name: str) -> Tensor:
        value, point = event.value(name), event.points[name]
        if point.kind in KEYS and point.attention == "cross":  # held once for the lines of a source
            assert event.tokens is not None
            return value[row // (len(event.tokens) // len(value))]
        one = value[row] if len(value) > 1 else value[0]
        real = None if event.counts is None else int(event.counts[row])
        if event.kept is None or point.kind in KEYS or self._pass.asked is None:
            return one if real is None else one.narrow(axis_of(point) - 1, 0, real)
        # A step keeps what any of its rows was asked for; where rows differ in length, this one may not have been.
        start = event.starts if isinstance(event.starts, int) else int(event.starts[row])
        kept = event.kept.tolist()
        own = [at for at, n in enumerate(kept) if (real is None or n < real) and self._pass.asked(start + n)]
        return one.index_select(axis_of(point) - 1, torch.tensor(own, dtype=torch.long, device=one.device))


@dataclass(slots=True, eq=False, repr=False)
class Pass(Mapping[str, Tensor]):
    """One forward pass, or one text written step by step for each row of a batch."""

    before: Event = field(default_factory=Event)  # what reading the source gave
    events: list[Event] = field(default_factory=list)
    chosen: list[list[list[int]]] | None = None  # for each row the lines that the search gave
    generated: bool = False
    asked: Callable[[int], bool] | None = None  # whether a position was to be captured; None: all
    loose: bool = False  # parts of a model that somebody ran by themselves
    scales: dict[str, float | Tensor] = field(default_factory=dict)  # by attention: what q·k was multiplied by

    @property
    def points(self) -> dict[str, TapPoint]:
        """The taps that were seen, by name."""
        points = dict(self.before.points)
        for event in self.events:
            points |= event.points
        return points

    @property
    def lines(self) -> list[Line]:
        """The lines that were written, those of a row together, best first; none of a plain forward pass."""
        return [
            self._line(row, rank, tokens)
            for row, ranked in enumerate(self.chosen or [])
            for rank, tokens in enumerate(ranked)
        ]

    def line(self, chosen: Sequence[int], row: int = 0) -> Line:
        """Any line that was open in the search, by its words. Raises ConfigError if it never was."""
        line = self._line(row, 0, list(chosen), strict=True)
        if len(line._chain) <= len(chosen) and len(line._chain) < len(self.events):
            raise ConfigError(f"no line of row {row} began with {list(chosen)}: the search followed {line.read}")
        return line

    def __getitem__(self, name: str) -> Tensor:
        """A captured value with its batch dimension; of lines the best of each row, padded (scores: with -inf)."""
        if name in self.before.values:
            return self.before.value(name)
        if not any(name in event.values for event in self.events):
            raise NotCapturedError(f"{name} was not captured; there is {', '.join(self) or 'nothing'}")
        if not self.generated:
            return self.events[0].value(name)
        best = [line[name] for line in self.lines if line.rank == 0]
        if not best:
            raise NotCapturedError(f"{name}: no line was finished; `line` finds those that were looked at")
        size = [max(part.shape[n] for part in best) for n in range(best[0].ndim)]
        empty = -torch.inf if self.points[name].kind == "scores" else 0.0
        return torch.stack([_padded(part, size, empty) for part in best])

    def __repr__(self) -> str:
        how = f"{len(self.events)} steps" if self.generated else "a forward pass"
        return f"Pass({how}: {', '.join(self)})"

    def __iter__(self) -> Iterator[str]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def _line(self, row: int, rank: int, chosen: list[int], *, strict: bool = False) -> Line:
        chain: list[tuple[int, int]] = []
        open_: dict[int, tuple[tuple[int, int], ...]] = {}
        for number, event in enumerate(self.events):
            assert event.tokens is not None
            assert event.parents is not None
            if number == 0:
                open_ = {n: ((0, n),) for n, source in enumerate(event.parents.tolist()) if source == row}
            else:
                if number > len(chosen):
                    break
                children = [(n, parent) for n, parent in enumerate(event.parents.tolist()) if parent in open_]
                same = [(n, parent) for n, parent in children if int(event.tokens[n, 0]) == chosen[number - 1]]
                # A model that is not fed what it said has one child a line, whatever its token.
                going = same or (children if len(children) == 1 and not strict else [])
                if not going:
                    break
                open_ = {n: (*open_[parent], (number, n)) for n, parent in going}
            chain = list(next(iter(open_.values()), ()))
        read: list[int] = []
        for number, n in chain:
            event = self.events[number]
            assert event.tokens is not None
            real = event.tokens.shape[1] if event.counts is None else int(event.counts[n])
            read += event.tokens[n, :real].tolist()
        linked = tuple((self.events[number], n) for number, n in chain)
        return Line(row, rank, tuple(chosen), tuple(read), linked, self)


class ByLayer:
    """One kind of tap, by layer or by site: `seen.weights[2]`, `seen.weights["decoder.layers.2.self"]`.

    A number means the attention that a model of two stacks is looked at for: the cross-attention where there is one.
    """

    def __init__(self, seen: Pass, kind: str) -> None:
        self._seen, self._kind = seen, kind

    @property
    def names(self) -> list[str]:
        """The names of what is here."""
        return [name for name, point in self._seen.points.items() if point.kind == self._kind]

    def __getitem__(self, key: int | str) -> Tensor:
        if isinstance(key, str):
            return self._seen[key if key.endswith(f".{self._kind}") else f"{key}.{self._kind}"]
        points = [p for p in self._seen.points.values() if p.kind == self._kind and p.layer == key]
        if not points:
            raise NotCapturedError(f"no {self._kind} of layer {key} were captured; there is {', '.join(self.names)}")
        order = sorted(points, key=lambda p: (p.attention != "cross", p.stack == "encoder"))
        return self._seen[order[0].name]


class Seen(Mapping[str, Tensor]):
    """Everything a capture saw, pass by pass; by name and by layer it answers for the last pass."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []

    @property
    def last(self) -> Pass:
        """The newest pass. Raises ConfigError where the model was not run."""
        if not self.passes:
            raise NotCapturedError("nothing was captured: the model was not run inside the capture")
        return self.passes[-1]

    @property
    def lines(self) -> list[Line]:
        """The lines that the last pass wrote."""
        return self.last.lines

    def __getitem__(self, name: str) -> Tensor:
        return self.last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.passes[-1] if self.passes else ())

    def __len__(self) -> int:
        return len(self.passes[-1]) if self.passes else 0

    @property
    def weights(self) -> ByLayer:
        """Attention weights (B, h, t, S)."""
        return ByLayer(self.last, "weights")

    @property
    def scores(self) -> ByLayer:
        """What the softmax was given (B, h, t, S)."""
        return ByLayer(self.last, "scores")

    @property
    def residual(self) -> ByLayer:
        """The stream after a layer (B, t, D)."""
        return ByLayer(self.last, "residual")


def axis_of(point: TapPoint) -> int:
    """Where a value's rows (queries, or keys for a kind of KEYS) are counted."""
    return point.shape.split().index("S" if point.kind in KEYS else "t")


def _padded(part: Tensor, size: Sequence[int], value: float) -> Tensor:
    room = [n for want, have in zip(reversed(size), reversed(part.shape), strict=True) for n in (0, want - have)]
    return F.pad(part, room, value=value)
