"""Teacher-forced and free-running accuracy by position: exposure bias (Ranzato et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

Tokens = list[list[int]]
RANGES = (1, 2, 3, 5, 10, 20, 50, 100, 200)  # the last position of each range of a table; one more holds the rest
NOTHING = -1  # not a token id: positions after the end of an output match no gold token


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRange:
    """Accuracies over the `tokens` gold tokens at positions `low` to `high`, counted from 1."""

    low: int
    high: int
    forced: float
    free: float
    tokens: int

    @property
    def label(self) -> str:
        """The range as text for a table."""
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReport:
    """Accuracies at each position over the `counts` sentences that reach it, and the first error of each free run."""

    forced: tuple[float, ...]
    free: tuple[float, ...]
    counts: tuple[int, ...]
    divergence: tuple[int | None, ...]

    @property
    def gap(self) -> tuple[float, ...]:
        """Forced minus free at each position: the exposure-bias curve."""
        return tuple(forced - free for forced, free in zip(self.forced, self.free, strict=True))

    @property
    def forced_accuracy(self) -> float:
        """The share of gold tokens predicted correctly given the gold prefix."""
        return float(np.average(self.forced, weights=self.counts))

    @property
    def free_accuracy(self) -> float:
        """The share of gold tokens that the model's own output has at the same position."""
        return float(np.average(self.free, weights=self.counts))

    @property
    def mean_divergence(self) -> float | None:
        """The mean index of the first error over the sentences that have one; None if all are correct."""
        indices = [index for index in self.divergence if index is not None]
        return float(np.mean(indices)) if indices else None

    def to_json(self) -> dict[str, float | None]:
        """The values that `headway evaluate --json` prints."""
        return {
            "forced_accuracy": self.forced_accuracy,
            "free_accuracy": self.free_accuracy,
            "mean_divergence": self.mean_divergence,
        }

    def ranges(self) -> tuple[PositionRange, ...]:
        """All positions in a few ranges, narrow at the start."""
        edges = [0, *(edge for edge in RANGES if edge < len(self.counts)), len(self.counts)]
        return tuple(self._range(low, high) for low, high in pairwise(edges))

    def _range(self, low: int, high: int) -> PositionRange:
        forced, free, counts = self.forced[low:high], self.free[low:high], self.counts[low:high]
        return PositionRange(
            low=low + 1,
            high=high,
            forced=float(np.average(forced, weights=counts)),
            free=float(np.average(free, weights=counts)),
            tokens=sum(counts),
        )


def position_report(gold: Tokens, forced: Tokens, free: Tokens) -> PositionReport:
    """Compare the argmax under the gold prefix (`forced`) and the model's own outputs (`free`) with the gold tokens.

    A free output may be shorter or longer than the gold; missing tokens count as errors. Raises DataError on unequal
    counts, forced sequences of another length than the gold, or no gold token at all.
    """
    if not len(gold) == len(forced) == len(free):
        raise DataError(f"{len(gold)} gold, {len(forced)} forced and {len(free)} free lines; expected one of each")
    for number, (right, line) in enumerate(zip(gold, forced, strict=True)):
        if len(right) != len(line):
            raise DataError(f"line {number}: {len(line)} forced tokens for {len(right)} gold tokens; expected the same")
    width = max(map(len, gold), default=0)
    if not width:
        raise DataError(f"no gold token in {len(gold)} lines; expected at least one")
    gold_NT = _table(gold, width)
    there_NT = np.arange(width) < np.array([len(line) for line in gold])[:, None]
    counts_T = there_NT.sum(0)
    accuracies = (((gold_NT == _table(lines, width)) & there_NT).sum(0) / counts_T for lines in (forced, free))
    forced_T, free_T = (tuple(each.tolist()) for each in accuracies)
    return PositionReport(
        forced=forced_T,
        free=free_T,
        counts=tuple(counts_T.tolist()),
        divergence=tuple(first_divergence(right, own) for right, own in zip(gold, free, strict=True)),
    )


def first_divergence(gold: Sequence[object], free: Sequence[object]) -> int | None:
    """The first index at which two lines differ, an early or late end included; None when they are equal."""
    for index, (right, own) in enumerate(zip(gold, free, strict=False)):  # different lengths are handled below
        if right != own:
            return index
    return None if len(gold) == len(free) else min(len(gold), len(free))


def _table(lines: Tokens, width: int) -> NDArray[np.int64]:
    """Ragged sequences -> (N, width), truncated or padded."""
    table = np.full((len(lines), width), NOTHING)
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line[:width]
    return table
