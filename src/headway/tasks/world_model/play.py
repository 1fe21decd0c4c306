"""Playing: the score of a finished policy in the real environment, beside chance, the same data without a model, and
the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from headway.data.environments import OPTIMUM
from headway.data.episodes import Episodes, concatenate, play
from headway.metrics.world import ReturnStatistics
from headway.models.world import World
from headway.tasks.world_model.evaluation import imagined
from headway.tasks.world_model.imagination import Dream
from headway.tasks.world_model.policy import at_random, fresh_seeds, learned
from headway.tasks.world_model.q_learning import model_free
from headway.tasks.world_model.training import WorldTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a policy earned, and what stands beside it."""

    episodes: Episodes  # real ones
    dreamt: Dream  # from their first observations
    taken: int  # environment steps that the policy was learned with
    score: ReturnStatistics
    imagined: ReturnStatistics
    chance: ReturnStatistics
    without_model: ReturnStatistics
    optimum: float | None

    def to_json(self) -> dict[str, Any]:
        """Flat values."""
        return {
            "mean_return": self.score.mean,
            "return_error": self.score.error,
            "episodes": self.score.episodes,
            "environment_steps": self.taken,
            "imagined_return": self.imagined.mean,
            "random_return": self.chance.mean,
            "model_free_return": self.without_model.mean,
            "optimum": self.optimum,
            "dropped": self.episodes.dropped,
        }


def played(model: World, task: WorldTraining, device: torch.device, *, episodes: int, seed: int) -> Played:
    """Play episodes with fresh seeds, the same ones for all who play."""
    limit, actions = task.make().limit, task.make().actions
    real = play(task.make, learned(model, device), fresh_seeds(episodes, seed))
    chance = play(task.make, at_random(actions, seed), fresh_seeds(episodes, seed))
    rival = model_free(model, concatenate(task.collected), device, discount=task.config.discount, seed=task.seed)
    without = play(task.make, rival, fresh_seeds(episodes, seed))
    dreamt = imagined(model, real, device, limit)
    return Played(
        episodes=real,
        dreamt=dreamt,
        taken=task.taken,
        score=ReturnStatistics.of(real.returns),
        imagined=ReturnStatistics.of(dreamt.returns.cpu().numpy()),
        chance=ReturnStatistics.of(chance.returns),
        without_model=ReturnStatistics.of(without.returns),
        optimum=OPTIMUM.get(task.name),
    )
