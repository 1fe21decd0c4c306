"""What a forward pass did, kept for the page: every look of every attention, and every stack's stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from headway.inspection.capture import capture
from headway.inspection.capture_result import Seen
from headway.inspection.tap_names import TapPoint, taps
from headway.nn.attention_record import AttentionRecord
from headway.nn.positions import InputPositions

STREAM = ("embedding", "input", "residual", "hidden", "states", "out", "steps", "cost")


@dataclass(slots=True)
class Recording:
    """A model's looks by the name of their attention, and what passed its other taps; of a batch, the first text."""

    model: nn.Module
    looks: dict[str, list[AttentionRecord]] = field(
        default_factory=dict
    )  # by site; several if a decoder steps
    points: dict[str, TapPoint] = field(default_factory=dict)
    taps: dict[str, str] = field(
        default_factory=dict
    )  # by site: the name of the attention, which may serve many layers
    placed: dict[str, Tensor] = field(default_factory=dict)  # by stack: (T, D) with positions joined to the input
    seen: Seen = field(default_factory=Seen)

    def value(self, name: str) -> Tensor | None:
        """What passed a tap, without the batch dimension; None where nothing did."""
        if not self.seen.passes:
            return None
        last = self.seen.last
        return last[name][0] if name in set(last) else None

    def holder(self, stack: str) -> nn.Module:
        """The module that holds a stack's blocks."""
        (point,) = (p for p in taps(self.model) if p.kind == "embedding" and p.stack == stack)
        return self.model.get_submodule(point.module)

    def look(self, point: TapPoint, look: AttentionRecord, use: int) -> None:
        """Keep a look; a shared block is another layer at each use."""
        own = point.at(use) if point.shared else point
        self.points[own.site], self.taps[own.site] = own, point.site
        self.looks.setdefault(own.site, []).append(look)


@contextmanager
def recorded(model: nn.Module) -> Iterator[Recording]:
    """Record what the model does while the context is open; it runs as it always does."""
    recording, every = Recording(model), taps(model)
    kinds = sorted({point.kind for point in every} & set(STREAM))
    with ExitStack() as stack:
        for point in every:
            if point.where == "look" and point.kind == "q":
                _watch(recording, point, stack)
            if point.kind == "embedding":
                _positions(recording, point, stack)
        if kinds:
            recording.seen = stack.enter_context(capture(model, what=kinds))
        yield recording


def _watch(recording: Recording, point: TapPoint, stack: ExitStack) -> None:
    module: Any = recording.model.get_submodule(point.module)
    uses = iter(range(1 << 30))

    def watch(look: AttentionRecord) -> None:
        recording.look(point, look, next(uses))

    module.on_attention = watch
    stack.callback(setattr, module, "on_attention", None)


def _positions(recording: Recording, point: TapPoint, stack: ExitStack) -> None:
    joined = getattr(recording.model.get_submodule(point.module), "input_positions", None)
    if not isinstance(joined, InputPositions):
        return

    def passed(_module: nn.Module, _given: object, out: Tensor) -> None:
        recording.placed[point.stack] = out[0].detach()

    stack.callback(joined.register_forward_hook(passed).remove)
