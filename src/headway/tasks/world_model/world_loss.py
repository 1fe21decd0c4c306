"""What the world model minimises: the next observation, the reward and the end of each step."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from headway.models.world import World
from headway.tasks.training_task import Batch


def world_loss(model: World, batch: Batch, *, rare: float = 1.0, exact: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Summed over steps: of the next observation, of the reward (-log p of any, and its squared error), of the end.

    The error of a reward is in the model's unit of rewards. `exact` gives the likelihood where something steadier is
    minimised.
    """
    observations, actions, ages, counted = batch.inputs
    assert observations is not None
    assert actions is not None
    assert ages is not None
    assert counted is not None
    states = model.reader.state(observations)
    before, after = states[:, :-1], states[:, 1:]
    h = model(before, actions, ages)
    nats = (model.reader.score if exact else model.reader.nats)(h, before, after)
    any_reward, reward, end = model.outcomes(h, after)
    rewards, ended = batch.targets.unbind(-1)
    given = (rewards != 0).float()
    ends = F.binary_cross_entropy_with_logits(end, ended, reduction="none") * (1 + (rare - 1) * ended)
    off = ((reward - rewards) / model.reward_unit).square()
    off = F.binary_cross_entropy_with_logits(any_reward, given, reduction="none") + given * off
    return (nats * counted).sum(), (off * counted).sum(), (ends * counted).sum()
