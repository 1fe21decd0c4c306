"""The result of a capture: passes, and for a pass that generated text, the tensors of each hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor

from headway import display
from headway.counts import counted
from headway.errors import ConfigError
from headway.inspection.tap_names import TapPoint

KEYS = ("k", "v", "global_k", "global_v")  # kinds that run over keys, not over queries
DRAWN = 12  # heads in a notebook
SIDE = 64  # rows and columns of a head's picture
OVER_KEYS = ("bias", "scores", "weights")  # kinds whose last dimension is the keys


class NotCapturedError(ConfigError, KeyError):
    """A tap that was not captured; also a KeyError, as for any mapping."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show its repr


@dataclass(slots=True)
class ModelCall:
    """One call of the model, on N rows of K tokens: a whole forward pass, or one step of a search."""

    values: dict[str, list[Tensor]] = field(default_factory=dict)
    points: dict[str, TapPoint] = field(default_factory=dict)
    tokens: Tensor | None = None  # (N, K) of a step
    counts: Tensor | None = None  # (N,) the real tokens of each row; None: all
    parents: Tensor | None = None  # (N,) row of the call before; in the first call, row of the source
    starts: Tensor | int = 0  # (N,) or one number: the position of the first token
    kept: Tensor | None = None  # the captured ones of the K queries; None: all

    def value(self, name: str) -> Tensor:
        """The captured tensor, the parts of one text concatenated."""
        parts, point = self.values[name], self.points[name]
        if len(parts) == 1 or not point.accumulates or point.kind in KEYS:
            return parts[0]
        return torch.cat(parts, axis_of(point))


@dataclass(frozen=True, slots=True)
class DecodedHypothesis:
    """A hypothesis of a search, with what was captured along its path through the beam."""

    source: int  # row of the source or prompt
    rank: int  # among the hypotheses of its row, best first
    chosen: tuple[int, ...]  # its tokens as the search returned them: without start or prompt and stop token
    read: tuple[int, ...]  # the model's input tokens, start or prompt first; query t of a tensor is that of read[t]
    _chain: tuple[tuple[ModelCall, int], ...] = field(repr=False)
    _pass: Pass = field(repr=False)

    def __getitem__(self, name: str) -> Tensor:
        """A captured tensor without its batch dimension: one row per input token, S as long as the hypothesis."""
        if name in self._pass.before.values:
            return self._pass.before.value(name)[self.source]
        parts = [self._part(call, row, name) for call, row in self._chain if name in call.values]
        if not parts:
            raise _not_captured(name, self._pass)
        point = self._chain[0][0].points.get(name) or next(c.points[name] for c, _ in self._chain if name in c.points)
        if point.kind in KEYS and point.attention == "cross":
            return parts[0]
        if point.kind in OVER_KEYS:
            # The cache may be longer than this hypothesis: the keys beyond its length belong to other rows.
            keys = len(self.read) if point.attention == "self" else parts[0].shape[-1]
            empty = -torch.inf if point.kind == "scores" else 0.0
            parts = [_padded(part[..., :keys], [*part.shape[:-1], keys], empty) for part in parts]
        return torch.cat(parts, axis_of(point) - 1)

    def _part(self, call: ModelCall, row: int, name: str) -> Tensor:
        value, point = call.value(name), call.points[name]
        if point.kind in KEYS and point.attention == "cross":  # held once for all hypotheses of a source
            assert call.tokens is not None
            return value[row // (len(call.tokens) // len(value))]
        one = value[row] if len(value) > 1 else value[0]
        real = None if call.counts is None else int(call.counts[row])
        if call.kept is None or point.kind in KEYS or self._pass.selected is None:
            return one if real is None else one.narrow(axis_of(point) - 1, 0, real)
        # A step keeps the positions selected for any of its rows; where rows differ in length, not all are this one's.
        start = call.starts if isinstance(call.starts, int) else int(call.starts[row])
        kept = call.kept.tolist()
        own = [at for at, n in enumerate(kept) if (real is None or n < real) and self._pass.selected(start + n)]
        return one.index_select(axis_of(point) - 1, torch.tensor(own, dtype=torch.long, device=one.device))


@dataclass(slots=True, eq=False, repr=False)
class Pass(Mapping[str, Tensor]):
    """One forward pass, or one text generated step by step for each row of a batch."""

    before: ModelCall = field(default_factory=ModelCall)  # encoding the source
    calls: list[ModelCall] = field(default_factory=list)
    chosen: list[list[list[int]]] | None = None  # the hypotheses (tokens) that the search returned for each row
    generated: bool = False
    selected: Callable[[int], bool] | None = None  # whether a position is captured; None: all
    partial: bool = False  # submodules that were run outside of the model's forward
    scales: dict[str, float | Tensor] = field(default_factory=dict)  # by attention: the factor of q·k

    @property
    def points(self) -> dict[str, TapPoint]:
        """The captured taps, by name."""
        points = dict(self.before.points)
        for call in self.calls:
            points |= call.points
        return points

    @property
    def hypotheses(self) -> list[DecodedHypothesis]:
        """The hypotheses that the search returned, row by row, best first; none for a plain forward pass."""
        return [
            self._follow(row, rank, tokens)
            for row, ranked in enumerate(self.chosen or [])
            for rank, tokens in enumerate(ranked)
        ]

    def hypothesis(self, chosen: Sequence[int], row: int = 0) -> DecodedHypothesis:
        """Any hypothesis that was open in the search, by its tokens. Raises ConfigError if none was."""
        found = self._follow(row, 0, list(chosen), strict=True)
        if len(found._chain) <= len(chosen) and len(found._chain) < len(self.calls):
            raise ConfigError(f"no hypothesis of row {row} began with {list(chosen)}; the search followed {found.read}")
        return found

    @property
    def lines(self) -> list[DecodedHypothesis]:
        """Older name of `hypotheses`."""
        return self.hypotheses

    def line(self, chosen: Sequence[int], row: int = 0) -> DecodedHypothesis:
        """Older name of `hypothesis`."""
        return self.hypothesis(chosen, row)

    def __getitem__(self, name: str) -> Tensor:
        """A captured tensor with its batch dimension; of generated text the best hypotheses, padded (scores: -inf)."""
        if name in self.before.values:
            return self.before.value(name)
        if not any(name in call.values for call in self.calls):
            raise _not_captured(name, self)
        if not self.generated:
            return self.calls[0].value(name)
        best = [each[name] for each in self.hypotheses if each.rank == 0]
        if not best:
            raise NotCapturedError(f"{name}: no hypothesis is finished; get an open one by `hypothesis`")
        size = [max(part.shape[n] for part in best) for n in range(best[0].ndim)]
        empty = -torch.inf if self.points[name].kind == "scores" else 0.0
        return torch.stack([_padded(part, size, empty) for part in best])

    def __repr__(self) -> str:
        how = counted(len(self.calls), "step") if self.generated else "a forward pass"
        return f"Pass({how}: {', '.join(self)})"

    def _repr_html_(self) -> str:
        """For notebooks: the shape of every tensor, and the attention weights of the first row, drawn."""
        how = counted(len(self.calls), "step") if self.generated else "a forward pass"
        rows = [[name, point.kind, point.shape, _shape(self, name)] for name, point in self.points.items()]
        maps = (display.grid(_shrunk(cells), label) for label, cells in _heads(self))
        table = display.figures(["name", "kind", "dimensions", "shape"], rows, how)
        return "".join([table, *islice(maps, DRAWN)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def _follow(self, row: int, rank: int, chosen: list[int], *, strict: bool = False) -> DecodedHypothesis:
        """The path of these tokens through the calls: in each, the rows that extend it by the next token."""
        chain: list[tuple[int, int]] = []
        open_: dict[int, tuple[tuple[int, int], ...]] = {}  # row of the call -> the path to it
        for number, call in enumerate(self.calls):
            assert call.tokens is not None
            assert call.parents is not None
            if number == 0:
                open_ = {n: ((0, n),) for n, source in enumerate(call.parents.tolist()) if source == row}
            else:
                if number > len(chosen):
                    break
                children = [(n, parent) for n, parent in enumerate(call.parents.tolist()) if parent in open_]
                same = [(n, parent) for n, parent in children if int(call.tokens[n, 0]) == chosen[number - 1]]
                # A model that is not fed its own output has one child per hypothesis, whatever its token.
                going = same or (children if len(children) == 1 and not strict else [])
                if not going:
                    break
                open_ = {n: (*open_[parent], (number, n)) for n, parent in going}
            chain = list(next(iter(open_.values()), ()))
        read: list[int] = []
        for number, n in chain:
            call = self.calls[number]
            assert call.tokens is not None
            real = call.tokens.shape[1] if call.counts is None else int(call.counts[n])
            read += call.tokens[n, :real].tolist()
        linked = tuple((self.calls[number], n) for number, n in chain)
        return DecodedHypothesis(row, rank, tuple(chosen), tuple(read), linked, self)


class ByLayer:
    """One kind of tap, by layer or by site: `result.weights[2]`, `result.weights["decoder.layers.2.self"]`.

    In an encoder-decoder a layer number means the cross-attention where the kind has one, else the decoder.
    """

    def __init__(self, seen: Pass, kind: str) -> None:
        self._seen, self._kind = seen, kind

    @property
    def names(self) -> list[str]:
        """The captured taps of this kind."""
        return [name for name, point in self._seen.points.items() if point.kind == self._kind]

    def __getitem__(self, key: int | str) -> Tensor:
        if isinstance(key, str):
            return self._seen[key if key.endswith(f".{self._kind}") else f"{key}.{self._kind}"]
        points = [p for p in self._seen.points.values() if p.kind == self._kind and p.layer == key]
        if not points:
            raise NotCapturedError(f"no {self._kind} of layer {key} were captured; captured: {', '.join(self.names)}")
        order = sorted(points, key=lambda p: (p.attention != "cross", p.stack == "encoder"))
        return self._seen[order[0].name]


class CaptureResult(Mapping[str, Tensor]):
    """Everything a capture recorded, pass by pass; access by name and by layer is to the last pass."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []

    @property
    def last(self) -> Pass:
        """The last pass. Raises ConfigError if the model was not run."""
        if not self.passes:
            raise NotCapturedError("nothing was captured: the model was not run inside the capture")
        return self.passes[-1]

    @property
    def hypotheses(self) -> list[DecodedHypothesis]:
        """The hypotheses of the last pass."""
        return self.last.hypotheses

    @property
    def lines(self) -> list[DecodedHypothesis]:
        """Older name of `hypotheses`."""
        return self.last.hypotheses

    def __getitem__(self, name: str) -> Tensor:
        return self.last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.passes[-1] if self.passes else ())

    def __len__(self) -> int:
        return len(self.passes[-1]) if self.passes else 0

    def __repr__(self) -> str:
        return f"CaptureResult({self.passes})"

    def _repr_html_(self) -> str:
        """For notebooks: the last pass."""
        if not self.passes:
            return display.sentence("nothing was captured: the model was not run inside the capture")
        earlier = f"The last of {len(self.passes)} passes:" if len(self.passes) > 1 else ""
        return f"{display.sentence(earlier)}{self.last._repr_html_()}"

    @property
    def weights(self) -> ByLayer:
        """Attention weights (B, h, t, S)."""
        return ByLayer(self.last, "weights")

    @property
    def scores(self) -> ByLayer:
        """Attention scores, the softmax's input (B, h, t, S)."""
        return ByLayer(self.last, "scores")

    @property
    def residual(self) -> ByLayer:
        """The residual stream after a layer (B, t, D)."""
        return ByLayer(self.last, "residual")


def _shape(seen: Pass, name: str) -> str:
    try:
        return str(tuple(seen[name].shape))
    except NotCapturedError:  # of a search without a finished hypothesis
        return ""


def _heads(seen: Pass) -> Iterator[tuple[str, Tensor]]:
    """The attention weights (t, S) of the first row, by head, with a label."""
    for name, point in seen.points.items():
        if point.kind == "weights" and _shape(seen, name):
            for head, weights_TS in enumerate(seen[name][0]):
                if weights_TS.ndim == 2:
                    yield f"{name.removesuffix('.weights')}, head {head}", weights_TS


def _shrunk(weights_TS: Tensor) -> list[list[float]]:
    """At most SIDE rows and columns: each cell is the largest weight of its part."""
    sizes = [min(size, SIDE) for size in weights_TS.shape]
    cells: list[list[float]] = F.adaptive_max_pool2d(weights_TS.detach().float().cpu()[None], sizes)[0].tolist()
    return cells


def axis_of(point: TapPoint) -> int:
    """The dimension of positions: of queries, or of keys for the kinds in KEYS."""
    return point.shape.split().index("S" if point.kind in KEYS else "t")


def _not_captured(name: str, captured: Mapping[str, Tensor]) -> NotCapturedError:
    return NotCapturedError(f"{name} was not captured; captured: {', '.join(captured) or 'nothing'}")


def _padded(part: Tensor, size: Sequence[int], value: float) -> Tensor:
    room = [n for want, have in zip(reversed(size), reversed(part.shape), strict=True) for n in (0, want - have)]
    return F.pad(part, room, value=value)
