"""The log of a capture: files what the hooks report under the pass, the step and the row it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from headway.inspection.capture_result import KEYS, CaptureResult, ModelCall, Pass
from headway.inspection.tap_names import TapPoint
from headway.nn.attention_record import AttentionRecord

READERS: dict[str, Callable[[AttentionRecord, Tensor | None, Tensor | None], Tensor | None]] = {
    "q": AttentionRecord.query_vectors,
    "k": lambda look, heads, _: look.added_keys(look.k, heads),
    "v": lambda look, heads, _: look.added_keys(look.v, heads),
    "global_k": lambda look, heads, _: (
        None if look.global_tokens is None else look.added_keys(look.global_tokens.k, heads)
    ),
    "global_v": lambda look, heads, _: (
        None if look.global_tokens is None else look.added_keys(look.global_tokens.v, heads)
    ),
    "bias": AttentionRecord.position_term,
    "scores": AttentionRecord.scores,
    "weights": AttentionRecord.weights,
    "heads": AttentionRecord.head_outputs,
}


class CaptureLog:
    """Records tensors at taps; `heads` and `selected` (positions) restrict them, None meaning all."""

    def __init__(self, heads: tuple[int, ...] | None, selected: Callable[[int], bool] | None) -> None:
        self.heads, self.selected = heads, selected
        self.result = CaptureResult()
        self.depth = 0
        self.call: ModelCall | None = None
        self.moves: Tensor | None = None  # rows of the call before, as `select` has reordered them
        self.uses: dict[str, int] = {}  # of a shared block, in this call
        self.queries_read: dict[str, int] = {}  # queries of a text that arrives in parts, in this call
        self.cross_keys: set[str] = set()  # keys and values of the source already recorded for this text

    # --- calls of the model ----------------------------------------------------------------------------------------

    def forward(self, inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Record a forward pass."""
        if self.depth:
            return inner(*arguments, **named)
        call = ModelCall()
        self.result.passes.append(Pass(calls=[call]))
        return self._during(call, inner, *arguments, **named)

    def start(self, inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Record `Stepper.start`: the source is encoded and a text begins."""
        fresh = Pass(generated=True, selected=self.selected)
        self.result.passes.append(fresh)
        self.moves, self.cross_keys = None, set()
        return self._during(fresh.before, inner, *arguments, **named)

    def extend(
        self, inner: Callable[..., Any], tokens_BK: Tensor, state: Any, counts_B: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Record `Stepper.extend`: a step of the text."""
        if not self.result.passes or not self.result.passes[-1].generated:
            self.result.passes.append(Pass(generated=True, selected=self.selected))
            self.cross_keys = set()
        calls, rows = self.result.passes[-1].calls, len(tokens_BK)
        parents = torch.arange(rows) if self.moves is None else self.moves
        starts: Tensor | int = 0
        if calls:
            last = calls[-1]
            assert last.tokens is not None
            starts = last.starts + (last.tokens.shape[1] if last.counts is None else last.counts)
            starts = starts[parents] if isinstance(starts, Tensor) else starts
        counts = None if counts_B is None else counts_B.cpu().clone()
        call = ModelCall(tokens=tokens_BK.cpu().clone(), counts=counts, parents=parents, starts=starts)
        call.kept = self._kept(tokens_BK.shape[1], starts)
        calls.append(call)
        self.moves = None
        found: tuple[Tensor, Any] = self._during(call, inner, tokens_BK, state, counts_B)
        return found

    def select(self, inner: Callable[..., Any], state: Any, rows_B: Tensor) -> Any:
        """Record `Stepper.select`: the hypotheses of a search are reordered."""
        rows = rows_B.cpu()
        self.moves = rows.clone() if self.moves is None else self.moves[rows]
        return inner(state, rows_B)

    def search_started(self) -> None:
        """A sequence begins on a state that is reused."""
        self.start(lambda: None)

    def search_finished(self, hypotheses: list[list[list[int]]]) -> None:
        """A search has returned these hypotheses for each row."""
        if self.result.passes and self.result.passes[-1].generated:
            self.result.passes[-1].chosen = hypotheses

    def _during(self, call: ModelCall, inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        outer, self.call, self.uses, self.queries_read = self.call, call, {}, {}
        self.depth += 1
        try:
            return inner(*arguments, **named)
        finally:
            self.call = outer
            self.depth -= 1

    # --- hooks -----------------------------------------------------------------------------------------------------

    def attention_observer(
        self, points: list[TapPoint], layers: Sequence[int] | None
    ) -> Callable[[AttentionRecord], None]:
        """The observer of an attention module, for these of its taps."""

        def observe(look: AttentionRecord) -> None:
            named = self._numbered(points, layers)
            call = self._current(points[0])
            queries = self._queries(call, look.queries, points[0])
            if not named or (queries is not None and not len(queries) and call.tokens is not None):
                return
            device = look.q.device
            heads = None if self.heads is None else torch.tensor(self.heads, device=device)
            queries = None if queries is None else queries.to(device)
            with torch.inference_mode(False), torch.no_grad():
                for point in named:
                    if point.kind in KEYS and look.kind == "cross":
                        if point.name in (call.values if call.tokens is None else self.cross_keys):
                            continue  # the same in every step
                        self.cross_keys.add(point.name)
                    value = READERS[point.kind](look, heads, queries)
                    if value is not None:
                        computed = point.kind in ("weights", "scores") and look.known_weights is None
                        self._keep(call, point, value if computed else value.clone())
            if named:
                self.result.passes[-1].scales[named[0].site] = (
                    look.scale.detach().clone() if isinstance(look.scale, Tensor) else look.scale
                )

        return observe

    def record(self, point: TapPoint, layers: Sequence[int] | None, value: Tensor) -> None:
        """Record the value of a tap: (B, T, …), or one per row (B, D)."""
        named, call = self._numbered([point], layers), self._current(point)
        if not named:
            return
        if value.ndim == len(point.shape.split()):
            queries = self._queries(call, value.shape[1], point)
            if queries is not None:
                if not len(queries) and call.tokens is not None:
                    return
                value = value[:, queries.to(value.device)]
        with torch.inference_mode(False), torch.no_grad():
            self._keep(call, named[0], value.clone())

    def _keep(self, call: ModelCall, point: TapPoint, value: Tensor) -> None:
        """Keep a tensor of our own: the model may overwrite its buffers, and a view would hold all of one in memory."""
        call.points[point.name] = point
        call.values.setdefault(point.name, []).append(value.detach())

    def _current(self, point: TapPoint) -> ModelCall:
        """The call under way; for a submodule run by itself a pass of its own, which lasts until a tap repeats."""
        if self.call is not None:
            return self.call
        passes = self.result.passes
        if not passes or not passes[-1].partial or point.name in passes[-1].calls[0].values:
            passes.append(Pass(calls=[ModelCall()], partial=True))
        return passes[-1].calls[0]

    def _numbered(self, points: list[TapPoint], layers: Sequence[int] | None) -> list[TapPoint]:
        """The points with the layer number of this use of a shared block; none where that layer is not captured."""
        if not points[0].shared:
            return points
        key = points[0].name
        use = self.uses.get(key, 0)
        self.uses[key] = use + 1
        return [point.at(use) for point in points] if layers is None or use in layers else []

    def _kept(self, count: int, starts: Tensor | int) -> Tensor | None:
        """Of `count` queries from these positions on, those selected for any row; None: all."""
        if self.selected is None:
            return None
        firsts = [starts] if isinstance(starts, int) else starts.tolist()
        return torch.tensor(
            [n for n in range(count) if any(self.selected(first + n) for first in firsts)], dtype=torch.long
        )

    def _queries(self, call: ModelCall, count: int, point: TapPoint) -> Tensor | None:
        """The selected ones of these queries: of a whole text, a step, or the next part of either; None: all."""
        if self.selected is None:
            return None
        before = 0
        if point.accumulates:
            before = self.queries_read.get(point.name, 0)
            self.queries_read[point.name] = before + count
        return self._kept(count, call.starts + before)
