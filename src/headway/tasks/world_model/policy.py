"""Acting in a real environment: policies over observations, learned by a world model."""

from __future__ import annotations

import numpy as np
import torch

from headway.data.environments import Observation
from headway.data.episodes import Policy
from headway.decoding.non_finite import expect_finite
from headway.models.world import World
from headway.tasks.world_model.imagination import greedy


def learned(model: World, device: torch.device) -> Policy:
    """The likeliest action."""

    def act(observations: Observation) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return greedy(_logits(model, device, observations)).numpy()

    return act


def exploring(model: World, device: torch.device, *stream: int, share: float = 0.0) -> Policy:
    """Actions as likely as the actor says, drawn from a stream of their own; a share of them at random."""
    random = np.random.default_rng(stream)

    def act(observations: Observation) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        logits = _logits(model, device, observations).double().numpy()
        chosen = np.asarray((logits + random.gumbel(size=logits.shape)).argmax(-1), np.int64)
        if share:
            anything = random.random(len(chosen)) < share
            chosen = np.where(anything, random.integers(logits.shape[-1], size=len(chosen)), chosen)
        return chosen

    return act


@torch.no_grad()
def _logits(model: World, device: torch.device, observations: Observation) -> torch.Tensor:
    """The logits of the actions (B, A), on the CPU. Raises NonFiniteOutputError."""
    state = model.reader.state(torch.from_numpy(observations).to(device))
    logits: torch.Tensor = model.actor(model.reader.normal(state)).cpu()
    expect_finite(logits, "episode")
    return logits
