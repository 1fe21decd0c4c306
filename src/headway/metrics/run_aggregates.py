"""Scores of several runs as one figure with an interval (Agarwal et al. 2021, "Deep RL at the Edge of the Precipice").

A run is a seed: one run says little. Scores are (R, K), R runs of each of K environments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
DRAWS = 2000  # bootstrap samples of an interval
TRIMMED = 0.25  # share of the scores left out at either end


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def interquartile_mean(scores: ArrayLike) -> float:
    """The mean of the scores of all runs and environments without the lowest and the highest quarter, rounded down."""
    ordered = np.sort(np.asarray(scores, np.float64), axis=None)
    cut = math.floor(TRIMMED * len(ordered))
    return float(ordered[cut : len(ordered) - cut].mean())


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> float:
    """P(X > Y) + P(X = Y) / 2 for a run X of ours (R, K) and Y of theirs (Q, K), the mean over environments."""
    x, y = _columns(ours), _columns(theirs)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"scores of {x.shape[1]} and {y.shape[1]} environments, expected the same")
    above = (x[:, None] > y[None]).mean((0, 1))
    equal = (x[:, None] == y[None]).mean((0, 1))
    return float((above + equal / 2).mean())


def bootstrap(
    statistic: Callable[..., float], *samples: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> Estimate:  # fmt: skip
    """A statistic of one or more arrays of scores (R, K), with the percentile interval of a stratified bootstrap.

    Stratified: the runs of each environment are drawn anew, with replacement, by themselves.
    """
    random, columns = np.random.default_rng(seed), [_columns(each) for each in samples]
    found = [statistic(*(_redrawn(each, random) for each in columns)) for _ in range(draws)]
    low, high = np.quantile(found, (0.025, 0.975))
    return Estimate(statistic(*columns), float(low), float(high))


def _redrawn(scores: Floats, random: np.random.Generator) -> Floats:
    rows = random.integers(len(scores), size=scores.shape)
    return np.take_along_axis(scores, rows, 0)


def _columns(scores: ArrayLike) -> Floats:
    """Scores (R,) or (R, K) as (R, K)."""
    found = np.asarray(scores, np.float64)
    found = found.reshape(-1, 1) if found.ndim == 1 else found
    if found.ndim != 2 or not found.size:
        raise ValueError(f"scores of shape {found.shape}, expected runs, or runs by environments")
    return found
