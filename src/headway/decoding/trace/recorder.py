"""Recording a beam search: a `Recorder` that also reads the model's attention over the source through a hook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from headway.decoding.beam import BeamStep
from headway.decoding.trace import Floats, Levels, TraceStep
from headway.errors import ShapeError
from headway.models.stepper import source_attention


class TraceRecorder:
    """Records every step of one beam search over sources of these lengths. Use as a context manager.

    The weights are read by a hook on the tap of `source_attention`, which changes neither its kernel nor its numbers.
    """

    def __init__(self, model: object, lengths: Sequence[int]) -> None:
        self.lengths = list(lengths)
        attention = source_attention(model)
        self._tap = None if attention is None else attention.tap
        self._reversed = attention is not None and attention.reversed
        self._steps: list[list[TraceStep]] = [[] for _ in self.lengths]
        self._open: list[Floats] = [np.zeros(1, np.float32) for _ in self.lengths]  # totals of open hypotheses, by row
        self._weights: Tensor | None = None  # (N, S) of the newest step
        self._hook: Any = None

    def __enter__(self) -> TraceRecorder:
        if self._tap is not None:
            self._hook = self._tap.register_forward_hook(self._on_attention)
        return self

    def __exit__(self, *_: object) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def steps(self, row: int) -> tuple[TraceStep, ...]:
        """The recorded steps of a source row."""
        return tuple(self._steps[row])

    def step(self, step: BeamStep) -> None:
        """Record a step of every row that is still open."""
        rows = step.rows.tolist()
        parts = (step.totals, step.parents, step.tokens, step.ended, step.kept)
        totals, parents, words, ended, kept = (part.cpu().numpy().copy() for part in parts)
        attention = self._attention(len(rows))
        for n, row in enumerate(rows):
            before = self._open[row]
            # Before the first step all groups hold the same empty hypothesis: one row of attention stands for them.
            levels, scales = (None, None) if attention is None else self._levels(attention[n, : len(before)], row)
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

    def _on_attention(self, _module: nn.Module, _inputs: object, weights: Tensor) -> None:
        """Keep the mean over heads for the newest token, (B, S), of weights (B, H, T, S) or (B, T, S)."""
        self._weights = (weights.float().mean(1) if weights.ndim == 4 else weights.float())[:, -1]

    def _attention(self, rows: int) -> Floats | None:
        """(R, P, S) since the step before; P = 0 where the model has not run, None for a model without attention."""
        if self._tap is None:
            return None
        if self._weights is None:
            return np.zeros((rows, 0, max(self.lengths)), np.float32)
        count, source = self._weights.shape
        if count % rows:
            raise ShapeError(f"attention of {count} hypotheses for {rows} rows: expected the same number for each row")
        weights: Floats = self._weights.view(rows, count // rows, source).cpu().numpy()
        self._weights = None
        return weights

    def _levels(self, weights: Floats, row: int) -> tuple[Levels, Floats]:
        real = weights[:, : self.lengths[row]]
        return quantised(real[:, ::-1] if self._reversed else real)


def quantised(weights: Floats) -> tuple[Levels, Floats]:
    """Rows (P, S) in units of 1/255 of their largest weight, and these weights (P,): off by at most half a unit."""
    scales: Floats = weights.max(1, initial=0).astype(np.float32)
    levels = np.rint(weights * (255 / np.maximum(scales, np.float32(1e-30)))[:, None])  # a row of zeros stays one
    return levels.astype(np.uint8), scales


def added(before: Floats, totals: Floats) -> Floats:
    """The float32 numbers that were added to `before` to give `totals`: before + added == totals, bitwise.

    Totals are all that the search keeps, and a trace must add up to the bit. Both are negative, totals the larger in
    magnitude. Up to twice `before`, the difference is exact (Sterbenz's lemma). Beyond that it is rounded by up to half
    a unit in the last place, and the sum may round to a neighbour of the total. The number that the search added lies
    within two units of the rounded difference, so these neighbours are tried.
    """
    with np.errstate(invalid="ignore"):  # -inf - -inf
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
