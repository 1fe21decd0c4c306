"""How a policy is learned from a world model: in imagined rollouts, or by planning in its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headway.config import positive, probability


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCritic:
    """Imagined rollouts and λ-returns, for any observation; settings: `dreams`, `horizon`, `trace`, `entropy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProximalPolicy:
    """The same rollouts, each learned from several times with clipped ratios (PPO, Schulman et al. 2017)."""

    size_limits: ClassVar[dict[str, str]] = {"reuse": "round-steps", "rows": "batch"}
    reuse: int = 16  # training steps on the same imagined rollouts
    rows: int = 512  # imagined steps that a training step draws of them
    clip: float = 0.2  # ε: how far the ratio of new to old probability may move before its gradient stops

    def __post_init__(self) -> None:
        positive("task.learner.reuse", self.reuse)
        positive("task.learner.rows", self.rows)
        probability("task.learner.clip", self.clip)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueIteration:
    """Value iteration in the learned table of transitions, for observations of one symbol; the actor imitates it."""

    posterior: int = 0  # steps for which a table drawn from the posterior decides what is collected; 0: the policy does

    def __post_init__(self) -> None:
        positive("task.learner.posterior", self.posterior, least=0)


Learner = ActorCritic | ProximalPolicy | ValueIteration
