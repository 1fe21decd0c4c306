"""The best policy of those that collected episodes: its return was seen, that of a newer one is only imagined."""

from __future__ import annotations

import torch
from torch import Tensor

from headway.data.episodes import Episodes
from headway.models.world import World

SCORE = "score"


class TriedPolicy:
    """Keeps the actor that collected the highest mean return, the newest of equals."""

    def __init__(self) -> None:
        self.held: dict[str, Tensor] = {}

    def judge(self, model: World, episodes: Episodes, limit: int) -> None:
        """Keep the model's actor, which collected these episodes, if none before it earned more."""
        score = torch.tensor(finished_return(episodes, limit))
        if not self.held or score >= self.held[SCORE].cpu():
            self.held = {**model.policy_state(), SCORE: score}

    def restore(self, model: World) -> None:
        """Put the kept actor into the model."""
        if self.held:
            model.restore_policy(self.held)


def finished_return(episodes: Episodes, limit: int) -> float:
    """The mean return of episodes that were not cut because the budget was spent; of all, if all were."""
    whole = episodes.ends[episodes.starts[1:] - 2] | (episodes.lengths >= limit)
    returns = episodes.returns
    return float((returns[whole] if whole.any() else returns).mean())
