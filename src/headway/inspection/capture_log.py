"""The journal of a capture: what is heard at the taps, under the pass, the step and the line it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from headway.inspection.capture_result import KEYS, Event, Pass, Seen
from headway.inspection.tap_names import TapPoint
from headway.nn.attention_record import AttentionRecord

LOOKS: dict[str, Callable[[AttentionRecord, Tensor | None, Tensor | None], Tensor | None]] = {
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


class Journal:
    """Takes down what is heard, under the pass and the step it belongs to."""

    def __init__(self, heads: tuple[int, ...] | None, rows: Callable[[int], bool] | None) -> None:
        self.heads, self.rows = heads, rows
        self.seen = Seen()
        self.depth = 0
        self.event: Event | None = None
        self.moves: Tensor | None = None  # rows of the event before, as `select` has put them
        self.uses: dict[str, int] = {}  # of a shared block, in this event
        self.read: dict[str, int] = {}  # queries of a text that comes in parts, in this event
        self.held: set[str] = set()  # keys and values of a source that this text has told of

    # --- the model's ways in ---------------------------------------------------------------------------------------

    def whole(self, inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """A forward pass."""
        if self.depth:
            return inner(*arguments, **named)
        event = Event()
        self.seen.passes.append(Pass(events=[event]))
        return self._during(event, inner, *arguments, **named)

    def start(self, inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """A source is read: a text begins."""
        fresh = Pass(generated=True, asked=self.rows)
        self.seen.passes.append(fresh)
        self.moves, self.held = None, set()
        return self._during(fresh.before, inner, *arguments, **named)

    def extend(
        self, inner: Callable[..., Any], tokens_BK: Tensor, state: Any, counts_B: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """A step of a text."""
        if not self.seen.passes or not self.seen.passes[-1].generated:
            self.seen.passes.append(Pass(generated=True, asked=self.rows))
            self.held = set()
        events, rows = self.seen.passes[-1].events, len(tokens_BK)
        parents = torch.arange(rows) if self.moves is None else self.moves
        starts: Tensor | int = 0
        if events:
            last = events[-1]
            assert last.tokens is not None
            starts = last.starts + (last.tokens.shape[1] if last.counts is None else last.counts)
            starts = starts[parents] if isinstance(starts, Tensor) else starts
        counts = None if counts_B is None else counts_B.cpu().clone()
        event = Event(tokens=tokens_BK.cpu().clone(), counts=counts, parents=parents, starts=starts)
        event.kept = self._kept(tokens_BK.shape[1], starts)
        events.append(event)
        self.moves = None
        found: tuple[Tensor, Any] = self._during(event, inner, tokens_BK, state, counts_B)
        return found

    def select(self, inner: Callable[..., Any], state: Any, rows_B: Tensor) -> Any:
        """The lines of a search take other places."""
        rows = rows_B.cpu()
        self.moves = rows.clone() if self.moves is None else self.moves[rows]
        return inner(state, rows_B)

    def chosen(self, lines: list[list[list[int]]]) -> None:
        """A search has ended, and these are the lines it gives for each row."""
        if self.seen.passes and self.seen.passes[-1].generated:
            self.seen.passes[-1].chosen = lines

    def _during(self, event: Event, inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        outer, self.event, self.uses, self.read = self.event, event, {}, {}
        self.depth += 1
        try:
            return inner(*arguments, **named)
        finally:
            self.event = outer
            self.depth -= 1

    # --- what is heard ---------------------------------------------------------------------------------------------

    def looked(self, points: list[TapPoint], layers: Sequence[int] | None) -> Callable[[AttentionRecord], None]:
        """Whoever watches an attention, for these of its taps."""

        def watch(look: AttentionRecord) -> None:
            named = self._numbered(points, layers)
            event = self._open(points[0])
            queries = self._queries(event, look.queries, points[0])
            if not named or (queries is not None and not len(queries) and event.tokens is not None):
                return
            device = look.q.device
            heads = None if self.heads is None else torch.tensor(self.heads, device=device)
            queries = None if queries is None else queries.to(device)
            with torch.inference_mode(False), torch.no_grad():
                for point in named:
                    if point.kind in KEYS and look.kind == "cross":
                        if point.name in (event.values if event.tokens is None else self.held):
                            continue  # the same at every look
                        self.held.add(point.name)
                    value = LOOKS[point.kind](look, heads, queries)
                    if value is not None:
                        made = point.kind in ("weights", "scores") and look.known_weights is None
                        self._keep(event, point, value if made else value.clone())
            if named:
                self.seen.passes[-1].scales[named[0].site] = (
                    look.scale.detach().clone() if isinstance(look.scale, Tensor) else look.scale
                )

        return watch

    def passed(self, point: TapPoint, layers: Sequence[int] | None, value: Tensor) -> None:
        """A value (B, T, …), or one a row (B, D), has passed a tap."""
        named, event = self._numbered([point], layers), self._open(point)
        if not named:
            return
        if value.ndim == len(point.shape.split()):
            queries = self._queries(event, value.shape[1], point)
            if queries is not None:
                if not len(queries) and event.tokens is not None:
                    return
                value = value[:, queries.to(value.device)]
        with torch.inference_mode(False), torch.no_grad():
            self._keep(event, named[0], value.clone())

    def _keep(self, event: Event, point: TapPoint, value: Tensor) -> None:
        """Keep a value that is ours: what the model holds may be written over, or hold more than was asked for."""
        event.points[point.name] = point
        event.values.setdefault(point.name, []).append(value.detach())

    def _open(self, point: TapPoint) -> Event:
        if self.event is not None:
            return self.event
        # Somebody runs a part of the model by itself: a pass lasts until a tap is passed again.
        passes = self.seen.passes
        if not passes or not passes[-1].loose or point.name in passes[-1].events[0].values:
            passes.append(Pass(events=[Event()], loose=True))
        return passes[-1].events[0]

    def _numbered(self, points: list[TapPoint], layers: Sequence[int] | None) -> list[TapPoint]:
        """The points under the names they have at this use of a shared block; none where it was not asked for."""
        if not points[0].shared:
            return points
        key = points[0].name
        use = self.uses.get(key, 0)
        self.uses[key] = use + 1
        return [point.at(use) for point in points] if layers is None or use in layers else []

    def _kept(self, count: int, starts: Tensor | int) -> Tensor | None:
        """Of `count` queries from these positions on, those that may have been asked for."""
        if self.rows is None:
            return None
        firsts = [starts] if isinstance(starts, int) else starts.tolist()
        return torch.tensor(
            [n for n in range(count) if any(self.rows(first + n) for first in firsts)], dtype=torch.long
        )

    def _queries(self, event: Event, count: int, point: TapPoint) -> Tensor | None:
        """Which of these queries were asked for: of a whole text, a step, or the next part of either."""
        if self.rows is None:
            return None
        before = 0
        if point.joined:
            before = self.read.get(point.name, 0)
            self.read[point.name] = before + count
        return self._kept(count, event.starts + before)
