"""Recording a search: a `Recorder` that listens to the beam and, through a tap, to the model's look at the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from headway.decoding.beam import Step
from headway.decoding.trace import Floats, Levels, TraceStep
from headway.errors import ShapeError
from headway.models.stepper import source_attention


class TraceRecorder:
    """Keeps every step of one beam search over sources of these lengths. Use as a context manager.

    The weights are read by a hook on the tap of `source_attention`, which changes neither its kernel nor its numbers.
    """

    def __init__(self, model: object, lengths: Sequence[int]) -> None:
        self.lengths = list(lengths)
        attention = source_attention(model)
        self._tap = None if attention is None else attention.tap
        self._reversed = attention is not None and attention.reversed
        self._steps: list[list[TraceStep]] = [[] for _ in self.lengths]
        self._open: list[Floats] = [np.zeros(1, np.float32) for _ in self.lengths]  # totals of each row's open lines
        self._seen: Tensor | None = None
        self._hook: Any = None

    def __enter__(self) -> TraceRecorder:
        if self._tap is not None:
            self._hook = self._tap.register_forward_hook(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def steps(self, row: int) -> tuple[TraceStep, ...]:
        """What was recorded of a source row."""
        return tuple(self._steps[row])

    def step(self, step: Step) -> None:
        """Keep a step of every row that is still open."""
        rows = step.rows.tolist()
        parts = (step.totals, step.parents, step.words, step.ended, step.kept)
        totals, parents, words, ended, kept = (part.cpu().numpy().copy() for part in parts)
        looks = self._looks(len(rows))
        for n, row in enumerate(rows):
            before = self._open[row]
            # Groups that begin side by side look alike at first, and are one open line.
            levels, scales = (None, None) if looks is None else self._levels(looks[n, : len(before)], row)
            self._steps[row].append(
                TraceStep(
                    length=step.length,
                    norm=step.norm,
                    totals=totals[n],
                    nats=added(before[parents[n]], totals[n]),
                    parents=parents[n],
                    words=words[n],
                    ended=ended[n],
                    kept=kept[n],
                    levels=levels,
                    scales=scales,
                )
            )
            self._open[row] = totals[n][kept[n]]

    def _look(self, _module: nn.Module, _inputs: object, weights: Tensor) -> None:
        """Weights (B, H, T, S) or (B, T, S): the mean over heads for the newest token, (B, S)."""
        self._seen = (weights.float().mean(1) if weights.ndim == 4 else weights.float())[:, -1]

    def _looks(self, rows: int) -> Floats | None:
        """(R, P, S) since the step before; P = 0 where the model was not asked again, None where it cannot tell."""
        if self._tap is None:
            return None
        if self._seen is None:
            return np.zeros((rows, 0, max(self.lengths)), np.float32)
        lines, source = self._seen.shape
        if lines % rows:
            raise ShapeError(f"{lines} lines looked at the source, expected as many for each of {rows} rows")
        looks: Floats = self._seen.view(rows, lines // rows, source).cpu().numpy()
        self._seen = None
        return looks

    def _levels(self, look: Floats, row: int) -> tuple[Levels, Floats]:
        real = look[:, : self.lengths[row]]
        return quantised(real[:, ::-1] if self._reversed else real)


def quantised(weights: Floats) -> tuple[Levels, Floats]:
    """Rows (P, S) as 255ths of their largest weight, and these weights (P,): off by at most half a level."""
    scales: Floats = weights.max(1, initial=0).astype(np.float32)
    levels = np.rint(weights * (255 / np.maximum(scales, np.float32(1e-30)))[:, None])  # a row of zeros stays one
    return levels.astype(np.uint8), scales


def added(before: Floats, totals: Floats) -> Floats:
    """What was added to `before` to give `totals`: the float32 numbers that do, bit for bit.

    The difference rounds where the total is more than twice what it was before; then a neighbour of it is the one.
    """
    with np.errstate(invalid="ignore"):
        nats = np.where(totals == -np.inf, -np.inf, totals - before).astype(np.float32)
        for distance in (-1, 1, -2, 2):
            wrong = before + nats != totals
            if not wrong.any():
                break
            near = totals - before
            for _ in range(abs(distance)):
                near = np.nextafter(near, np.float32(np.copysign(np.inf, distance)))
            nats = np.where(wrong, near, nats)
    return nats
