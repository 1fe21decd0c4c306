"""How a policy is learned from a world model: in imagined rollouts, or by planning in its table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCritic:
    """Imagined rollouts and λ-returns, for any observation; settings: `dreams`, `horizon`, `trace`, `entropy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueIteration:
    """Value iteration in the learned table of transitions, for observations of one symbol; the actor imitates it."""


Learner = ActorCritic | ValueIteration
