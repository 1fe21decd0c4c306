"""A forward pass recorded for the page: every attention call, and the residual stream of every stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.inspection.capture import capture
from headway.inspection.capture_result import CaptureResult
from headway.inspection.tap_names import TapPoint, taps
from headway.nn.attention_record import AttentionRecord
from headway.nn.positions import InputPositions

STREAM = ("embedding", "input", "residual", "hidden", "states", "out", "steps", "cost")


@dataclass(slots=True)
class ForwardRecord:
    """Attention calls by site, and the values at the other taps; of a batch, the first text."""

    model: nn.Module
    every: list[TapPoint]  # all taps of the model
    attention: dict[str, list[AttentionRecord]] = field(
        default_factory=dict
    )  # by site; several where a decoder attends stepwise
    points: dict[str, TapPoint] = field(default_factory=dict)
    taps: dict[str, str] = field(default_factory=dict)  # by site: the attention's tap name, which may be a shared one
    with_positions: dict[str, Tensor] = field(default_factory=dict)  # by stack: (T, D) input with positions added
    position_codes: dict[str, Tensor] = field(default_factory=dict)  # by stack: (T, D), where they are added
    captured: CaptureResult = field(default_factory=CaptureResult)

    def value(self, name: str) -> Tensor | None:
        """The value at a tap, without the batch dimension; None if the tap was not reached."""
        if not self.captured.passes:
            return None
        last = self.captured.last
        return last[name][0] if name in set(last) else None

    def holder(self, stack: str) -> nn.Module:
        """The module that holds a stack's blocks."""
        (point,) = (p for p in self.every if p.kind == "embedding" and p.stack == stack)
        return self.model.get_submodule(point.module)

    def add(self, point: TapPoint, look: AttentionRecord, use: int) -> None:
        """Record an attention call; each use of a shared block is a layer."""
        own = point.at(use) if point.shared else point
        self.points[own.site], self.taps[own.site] = own, point.site
        self.attention.setdefault(own.site, []).append(look)


@contextmanager
def record_forward(model: nn.Module) -> Iterator[ForwardRecord]:
    """Record what the model computes while the context is open, without changing it."""
    recording = ForwardRecord(model, taps(model))
    kinds = sorted({point.kind for point in recording.every} & set(STREAM))
    with ExitStack() as stack:
        for point in recording.every:
            if point.where == "attention" and point.kind == "q":
                _observe_attention(recording, point, stack)
            if point.kind == "embedding":
                _observe_positions(recording, point, stack)
        if kinds:
            recording.captured = stack.enter_context(capture(model, what=kinds))
        yield recording


def _observe_attention(recording: ForwardRecord, point: TapPoint, stack: ExitStack) -> None:
    module: Any = recording.model.get_submodule(point.module)
    uses = iter(range(1 << 30))

    def observe(look: AttentionRecord) -> None:
        recording.add(point, look, next(uses))

    module.on_attention = observe
    stack.callback(setattr, module, "on_attention", None)


def _observe_positions(recording: ForwardRecord, point: TapPoint, stack: ExitStack) -> None:
    joined = getattr(recording.model.get_submodule(point.module), "input_positions", None)
    if not isinstance(joined, InputPositions):
        return

    def on_output(module: nn.Module, inputs: tuple[Any, ...], out: Tensor) -> None:
        recording.with_positions[point.stack] = out[0].detach()
        if getattr(module, "mix", None) is None:  # the codes by themselves: a difference would lose their last figures
            recording.position_codes[point.stack] = module.forward(torch.zeros_like(inputs[0]), *inputs[1:])[0].detach()

    stack.callback(joined.register_forward_hook(on_output).remove)
