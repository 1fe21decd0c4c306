"""Acting in a real environment: policies over observations or whole episodes, learned by a world model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.data.environments import Observation
from headway.data.episodes import History, HistoryPolicy, Policy
from headway.decoding.non_finite import expect_finite
from headway.models.world import World
from headway.tasks.world_model.imagination import greedy

Actions = NDArray[np.int64]


def learned(model: World, device: torch.device) -> Policy | HistoryPolicy:
    """The likeliest action."""
    return _policy(model, device, lambda logits: greedy(logits).numpy())


def exploring(model: World, device: torch.device, *stream: int, share: float = 0.0) -> Policy | HistoryPolicy:
    """Actions as likely as the actor says, drawn from a stream of their own; a share of them at random."""
    random = np.random.default_rng(stream)

    def choose(logits: Tensor) -> Actions:
        found = logits.double().numpy()
        chosen = np.asarray((found + random.gumbel(size=found.shape)).argmax(-1), np.int64)
        if share:
            anything = random.random(len(chosen)) < share
            chosen = np.where(anything, random.integers(found.shape[-1], size=len(chosen)), chosen)
        return chosen

    return _policy(model, device, choose)


def _policy(model: World, device: torch.device, choose: Callable[[Tensor], Actions]) -> Policy | HistoryPolicy:
    """One that reads what the actor does. Raises NonFiniteOutputError when it acts."""

    def decide(observations: Observation, memory: Tensor | None = None) -> Actions:
        with torch.no_grad():
            state = model.reader.state(torch.from_numpy(observations).to(device))
            logits: Tensor = model.actor(model.reader.normal(state), memory).cpu()
        expect_finite(logits, "episode")
        return choose(logits)

    def recall(histories: Sequence[History]) -> Actions:
        newest = np.stack([each.observations[-1] for each in histories])
        return decide(newest, remembered(model, histories, device))

    return HistoryPolicy(recall) if model.remembers else decide


@torch.no_grad()
def remembered(model: World, histories: Sequence[History], device: torch.device) -> Tensor:
    """The model's features of the last step of each episode (B, D); 0 where an episode begins.

    Only as many steps are read as the features depend on. Shorter ones are filled up behind, which a causal model
    does not see.
    """
    found = torch.zeros(len(histories), model.width, device=device)
    rows = [n for n, each in enumerate(histories) if each.actions]
    if not rows:
        return found
    lengths = np.asarray([min(len(histories[n].actions), model.reach) for n in rows])
    begins = np.asarray([len(histories[n].actions) for n in rows]) - lengths
    steps = np.minimum(np.arange(int(lengths.max())), lengths[:, None] - 1)  # the last one repeated
    at = begins[:, None] + steps
    read = list(zip(rows, at.tolist(), strict=True))
    seen = np.stack([[histories[n].observations[k] for k in each] for n, each in read])
    done = np.asarray([[histories[n].actions[k] for k in each] for n, each in read])
    states, actions, ages = (torch.from_numpy(x).to(device) for x in (seen, done, at))
    h = model(model.reader.state(states), actions, ages)
    found[rows] = h[torch.arange(len(rows), device=device), torch.from_numpy(lengths - 1).to(device)]
    return found
