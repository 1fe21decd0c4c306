"""Metrics of a world model: error of imagined rollouts, calibration, and the returns of its policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BINS = 10


@dataclass(frozen=True, slots=True)
class HorizonError:
    """Mean error of imagined rollouts k steps after their start, and of repeating the last observation."""

    k: int
    error: float
    repeated: float
    count: int


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Predictions of similar value: their mean, the mean outcome and their number."""

    predicted: float
    happened: float
    count: int


@dataclass(frozen=True, slots=True)
class ReturnStatistics:
    """The mean return over episodes with its standard error."""

    episodes: int
    mean: float
    error: float

    @classmethod
    def of(cls, returns: NDArray[Any]) -> ReturnStatistics:
        """Of returns (E,)."""
        spread = float(returns.std(ddof=1)) if len(returns) > 1 else math.nan
        return cls(len(returns), float(returns.mean()), spread / math.sqrt(len(returns)))

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


def errors_by_horizon(errors: Floats, repeated: Floats, counted: NDArray[np.bool_]) -> list[HorizonError]:
    """Errors (K, B) -> means by horizon k over the `counted` entries; horizons without any are left out."""
    found = []
    for k, (wrong, still, used) in enumerate(zip(errors, repeated, counted, strict=True), 1):
        if used.any():
            found.append(HorizonError(k, float(wrong[used].mean()), float(still[used].mean()), int(used.sum())))
    return found


def calibration_bins(predicted: Floats, happened: Floats) -> list[CalibrationBin]:
    """Predictions in bins of equal width from the smallest to the largest; empty bins are left out."""
    low, high = float(predicted.min()), float(predicted.max())
    places = ((predicted - low) / max(high - low, 1e-12) * BINS).astype(int).clip(0, BINS - 1)
    chosen = (places == n for n in range(BINS))
    return [
        CalibrationBin(float(predicted[x].mean()), float(happened[x].mean()), int(x.sum())) for x in chosen if x.any()
    ]


def calibration_error(bins: list[CalibrationBin]) -> float:
    """The expected calibration error: the mean |prediction - outcome| over bins, weighted by their size."""
    return sum(abs(b.predicted - b.happened) * b.count for b in bins) / sum(b.count for b in bins)


def rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's rank correlation; ties share their mean rank. NaN if one side is constant."""
    a, b = (_ranks(np.asarray(each, np.float64)) for each in (first, second))
    if not a.std() or not b.std():
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)


def total_variation(first: Floats, second: Floats) -> Floats:
    """The total variation distance of distributions (…, N) -> (…)."""
    return np.asarray(np.abs(first - second).sum(-1) / 2, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldReport:
    """A world model on held-out episodes and its policy in the real environment."""

    loss: float
    by_horizon: list[HorizonError]
    ends: list[CalibrationBin]
    rewards: list[CalibrationBin]
    real: ReturnStatistics
    imagined: ReturnStatistics
    taken: int  # environment steps used for training
    tables: dict[str, float]  # distances from the true transition table, if known

    def to_json(self) -> dict[str, Any]:
        """The flat object that `headway evaluate --json` prints."""
        errors = {f"error_{each.k}": each.error for each in self.by_horizon}
        still = {f"repeat_error_{each.k}": each.repeated for each in self.by_horizon}
        return {
            "loss": self.loss,
            "mean_return": self.real.mean,
            "return_error": self.real.error,
            "episodes": self.real.episodes,
            "imagined_return": self.imagined.mean,
            "environment_steps": self.taken,
            "end_calibration_error": calibration_error(self.ends),
            "reward_calibration_error": calibration_error(self.rewards),
            **self.tables,
            **errors,
            **still,
        }
