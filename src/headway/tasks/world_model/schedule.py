"""The rounds of a world model's training: collect, learn the world, learn to act in it, and repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from headway.config import positive
from headway.data.batching import Indices, Order

PhaseName = Literal["code", "world", "act"]
COOLED = 0.03  # the share of the learning rate at the end of a phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """How many steps of training each phase of a round has."""

    size_limits: ClassVar[dict[str, str]] = {"code": "round-steps", "world": "round-steps", "act": "round-steps"}
    code: int = 0  # the code of pictures
    world: int = 500  # training steps of the world model
    act: int = 300  # training steps of actor and critic, in imagined rollouts

    def __post_init__(self) -> None:
        for name in ("code", "world", "act"):
            positive(f"task.round.{name}", getattr(self, name), least=0)
        positive("task.round", self.steps)

    @property
    def steps(self) -> int:
        """Of all phases."""
        return self.code + self.world + self.act

    def phases(self) -> tuple[tuple[PhaseName, int], ...]:
        """Names and steps, in order."""
        return ("code", self.code), ("world", self.world), ("act", self.act)

    def at(self, step: int) -> tuple[int, PhaseName, int, int]:
        """Of a step of training: its round, its phase, which step of the phase it is, and how many that has."""
        number, left = divmod(step, self.steps)
        for name, steps in self.phases():
            if left < steps:
                return number, name, left, steps
            left -= steps
        raise AssertionError("a round has as many steps as its phases")


def cooling(at: int, steps: int) -> float:
    """The share of the learning rate at a step of a phase: it falls from 1 along a line."""
    return 1.0 - (1.0 - COOLED) * at / steps


class Rounds(Order):
    """An epoch is a round: each step draws rows from what was collected so far."""

    def __init__(self, rounds: Round, rows: dict[PhaseName, int], total: Callable[[PhaseName], int], seed: int) -> None:
        super().__init__(seed)
        self.rounds, self.rows, self.total = rounds, rows, total

    def batches(self, number: int = 0) -> int:
        """The steps of a round, whether its episodes are there or not."""
        return self.rounds.steps

    def epoch(self, number: int) -> list[Indices]:
        """The rows of each step."""
        random = self.random(number)
        return [
            np.asarray(random.integers(self.total(name), size=self.rows[name]), np.int64)
            for name, steps in self.rounds.phases()
            for _ in range(steps)
        ]
