"""Learning rate schedules: each a function of the step, counted from 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.training.ranges import expect_share, expect_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Linear warm-up, then constant."""

    warmup: int = 0  # steps from 0 up to the peak

    def __post_init__(self) -> None:
        expect_whole("schedule.warmup", self.warmup, least=0)

    def factor(self, step: int, steps: int) -> float:
        """The learning rate at `step` of `steps`, as a fraction of the peak."""
        return min(1.0, step / self.warmup) if self.warmup else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Linear warm-up, then linear decay to `floor` of the peak at the last step."""

    warmup: int = 0  # steps from 0 up to the peak
    floor: float = 0.0  # the rate at the end as a share of the peak

    def __post_init__(self) -> None:
        expect_whole("schedule.warmup", self.warmup, least=0)
        expect_share("schedule.floor", self.floor, whole=True)

    def factor(self, step: int, steps: int) -> float:
        """The learning rate at `step` of `steps`, as a fraction of the peak."""
        if step <= self.warmup:
            return step / self.warmup
        return self.floor + (1 - self.floor) * _left(step, self.warmup, steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """Linear warm-up, then half a cosine down to `floor` of the peak (Loshchilov & Hutter 2017)."""

    warmup: int = 0  # steps from 0 up to the peak
    floor: float = 0.1  # the rate at the end as a share of the peak

    def __post_init__(self) -> None:
        expect_whole("schedule.warmup", self.warmup, least=0)
        expect_share("schedule.floor", self.floor, whole=True)

    def factor(self, step: int, steps: int) -> float:
        """The learning rate at `step` of `steps`, as a fraction of the peak."""
        if step <= self.warmup:
            return step / self.warmup
        gone = 1 - _left(step, self.warmup, steps)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * gone))


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseSqrt:
    """Linear warm-up from `start` of the peak, then peak·√(warmup/step), as in fairseq."""

    warmup: int = 4000  # steps up to the peak
    start: float = 0.0  # the rate at step 0 as a share of the peak

    def __post_init__(self) -> None:
        expect_whole("schedule.warmup", self.warmup, least=1)
        expect_share("schedule.start", self.start, whole=True)

    def factor(self, step: int, steps: int) -> float:
        """The learning rate at `step` of `steps`, as a fraction of the peak."""
        if step < self.warmup:
            return self.start + (1 - self.start) * step / self.warmup
        return math.sqrt(self.warmup / step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noam:
    """width^-0.5·min(step^-0.5, step·warmup^-1.5), times `learning_rate` (Vaswani et al. 2017, eq. 3: 1)."""

    width: int = 512  # the model's width, d_model in the formula
    warmup: int = 4000  # steps up to the peak

    def __post_init__(self) -> None:
        expect_whole("schedule.warmup", self.warmup, least=1)
        expect_whole("schedule.width", self.width, least=1)

    def factor(self, step: int, steps: int) -> float:
        """The learning rate at `step` of `steps`, as a fraction of `learning_rate`."""
        return float(self.width**-0.5 * min(step**-0.5, step * self.warmup**-1.5))


Schedule = Constant | Linear | Cosine | InverseSqrt | Noam


def _left(step: int, warmup: int, steps: int) -> float:
    return max(0.0, (steps - step) / max(steps - warmup, 1))
