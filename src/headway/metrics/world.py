"""What a world model is worth: how far its dreams stray, whether its chances come true, what its policy earns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BINS = 10


@dataclass(frozen=True, slots=True)
class Horizon:
    """The error of dreams k steps after their start, and of saying that nothing changes; over so many of them."""

    k: int
    error: float
    repeated: float
    count: int


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions that are alike: their mean, the mean of what came, how many there are."""

    predicted: float
    happened: float
    count: int


@dataclass(frozen=True, slots=True)
class Returns:
    """The returns of some episodes: how many, their mean and its standard error."""

    episodes: int
    mean: float
    error: float

    @classmethod
    def of(cls, returns: NDArray[Any]) -> Returns:
        """Of returns (E,)."""
        spread = float(returns.std(ddof=1)) if len(returns) > 1 else math.nan
        return cls(len(returns), float(returns.mean()), spread / math.sqrt(len(returns)))

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


def horizons(errors: Floats, repeated: Floats, counted: NDArray[np.bool_]) -> list[Horizon]:
    """Means by k of errors (K, B) where they count; horizons that nothing reaches are left out."""
    found = []
    for k, (wrong, still, used) in enumerate(zip(errors, repeated, counted, strict=True), 1):
        if used.any():
            found.append(Horizon(k, float(wrong[used].mean()), float(still[used].mean()), int(used.sum())))
    return found


def calibration(predicted: Floats, happened: Floats) -> list[Bin]:
    """Predictions in bins of equal width between the smallest and the largest, those without any left out."""
    low, high = float(predicted.min()), float(predicted.max())
    places = ((predicted - low) / max(high - low, 1e-12) * BINS).astype(int).clip(0, BINS - 1)
    chosen = (places == n for n in range(BINS))
    return [Bin(float(predicted[x].mean()), float(happened[x].mean()), int(x.sum())) for x in chosen if x.any()]


def calibration_error(bins: list[Bin]) -> float:
    """The mean distance between what was predicted and what came, over all predictions."""
    return sum(abs(b.predicted - b.happened) * b.count for b in bins) / sum(b.count for b in bins)


def rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's: the correlation of the ranks; equal values share their mean rank. NaN where one side never varies."""
    a, b = (_ranks(np.asarray(each, np.float64)) for each in (first, second))
    if not a.std() or not b.std():
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)


def total_variation(first: Floats, second: Floats) -> Floats:
    """Half the summed differences of distributions (…, N): (…)."""
    return np.asarray(np.abs(first - second).sum(-1) / 2, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldReport:
    """A world model on held-out episodes and its policy in the real environment."""

    loss: float
    by_horizon: list[Horizon]
    ends: list[Bin]
    rewards: list[Bin]
    real: Returns
    imagined: Returns
    taken: int  # environment steps that were used to learn
    tables: dict[str, float]  # distances from the true transition table, where there is one

    def to_json(self) -> dict[str, Any]:
        """Flat values."""
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
