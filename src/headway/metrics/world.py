"""Metrics of a world model: error of imagined rollouts, calibration, and the returns of its policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BINS = 10
QUANTILE = 1.96  # of the normal distribution, for intervals of 95 %
SAME = 0.01  # share of the real return by which an imagined one may always differ
NEAR = 0.01  # share of the optimum that may be missing before a part is blamed for it
FAMILIAR = 0.9  # share of a policy's steps that were collected, below which exploration is blamed


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


@dataclass(frozen=True, slots=True)
class ReturnGap:
    """The imagined return less the real one of the same policy, with the half-width of its 95 % interval."""

    difference: float
    within: float  # 1.96 standard errors of the difference of two independent means, but not below `SAME`

    @classmethod
    def of(cls, imagined: ReturnStatistics, real: ReturnStatistics, data_error: float = 0.0) -> ReturnGap:
        """Of two sets of episodes; NaN if one of them is a single episode.

        `data_error` is the standard error that the model has because it was learned from finite data, if it is known.
        Where nothing is random, all episodes are alike and an interval would have no width, which no learned model
        could be within: it is at least a hundredth of the real return.
        """
        error = QUANTILE * math.hypot(imagined.error, real.error, data_error)
        return cls(imagined.mean - real.mean, max(error, SAME * abs(real.mean)) if math.isfinite(error) else error)

    @property
    def covers_zero(self) -> bool:
        """Whether the model's estimate agrees with the world: no difference is in the interval."""
        return abs(self.difference) <= self.within

    def __str__(self) -> str:
        return f"{self.difference:+.3f} ± {self.within:.3f}"


@dataclass(frozen=True, slots=True)
class ReturnByStep:
    """The mean return up to a step of the episode, imagined and real."""

    step: int
    imagined: float
    real: float


def returns_by_step(imagined: Floats, real: Floats, steps: Sequence[int]) -> list[ReturnByStep]:
    """Rewards (H, B) of imagined and of real episodes, 0 after their end -> the mean return up to each of `steps`."""
    return [ReturnByStep(at, float(imagined[:at].sum(0).mean()), float(real[:at].sum(0).mean())) for at in steps]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """Where expected return is lost between the optimum and the policy, in a world whose table is known.

    Each policy is played in the true table: the best one under the relative frequencies of the collected steps, the
    best one under the learned model, and the learned policy. What is lost between two of them is that part's loss.
    """

    optimum: float  # within the time limit
    stationary: float  # the policy of value iteration in the true table, which does not know the time
    by_counts: float  # the same from the relative frequencies of the collected steps
    by_model: float  # the same from the learned model
    policy: float  # the learned policy
    imagined: float  # the learned policy under the learned model
    imagined_optimum: float  # the best policy of the learned model, under that model
    pairs: int  # reachable pairs of state and action
    visited: int  # of them, those in the collected steps
    fewest: int  # visits of the pair that was visited least

    @property
    def lost(self) -> dict[str, float]:
        """What each part loses; the sum is the policy's regret."""
        return {
            "time": self.optimum - self.stationary,
            "exploration": self.stationary - self.by_counts,
            "model": self.by_counts - self.by_model,
            "policy": self.by_model - self.policy,
        }

    def to_json(self) -> dict[str, Any]:
        """Flat values."""
        return {
            "regret": self.optimum - self.policy,
            **{f"regret_of_{name}": value for name, value in self.lost.items()},
            "regret_in_model": self.imagined_optimum - self.imagined,
            "exact_return": self.policy,
            "exact_optimum": self.optimum,
            "pairs": self.pairs,
            "pairs_visited": self.visited,
            "fewest_visits": self.fewest,
        }


def limited_by(
    real: ReturnStatistics, gap: ReturnGap, familiar: float, regret: Regret | None, optimum: float | None
) -> str | None:
    """The part that costs the policy most return: exploration, model or policy; None if hardly any is missing.

    With a known table it is the largest part of the regret. Otherwise: exploration, if the policy often does what was
    never collected; the model, if what it imagines differs from what the world gives; else the policy, which earns as
    little in imagination. None also where the optimum is unknown.
    """
    if regret is not None:
        parts = {name: lost for name, lost in regret.lost.items() if name != "time"}
        worst = max(parts, key=lambda name: parts[name])
        return worst if parts[worst] > NEAR * abs(regret.optimum) else None
    if optimum is None or optimum - real.mean <= NEAR * abs(optimum):
        return None
    if familiar < FAMILIAR:
        return "exploration"
    return "policy" if gap.covers_zero else "model"


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
    by_step: list[ReturnByStep]
    familiar: float  # share of the policy's real steps whose state and action were among the collected ones
    regret: Regret | None  # where the true table is known
    optimum: float | None
    data_error: float | None  # the standard error of the imagined return that finite data leave, with a known table

    @property
    def gap(self) -> ReturnGap:
        """Imagined against real return."""
        return ReturnGap.of(self.imagined, self.real, self.data_error or 0.0)

    @property
    def limited_by(self) -> str | None:
        """The part that costs most return."""
        return limited_by(self.real, self.gap, self.familiar, self.regret, self.optimum)

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
            "imagined_less_real": self.gap.difference,
            "imagined_less_real_within": self.gap.within,
            **({} if self.data_error is None else {"imagined_data_error": self.data_error}),
            "familiar_steps": self.familiar,
            "limited_by": self.limited_by,
            "environment_steps": self.taken,
            "end_calibration_error": calibration_error(self.ends),
            "reward_calibration_error": calibration_error(self.rewards),
            **self.tables,
            **({} if self.regret is None else self.regret.to_json()),
            **errors,
            **still,
        }
