"""The ablation: a policy from the same episodes without the world model, by Q-learning on what really happened."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F

from headway.data.environments import Observation
from headway.data.episodes import Episodes, EpisodeSplit, Policy
from headway.models.world import Judge, World

UPDATES, ROWS, RATE = 4000, 256, 1e-3
RENEWED = 100  # updates after which the network that values what comes next is the newest again


def model_free(world: World, episodes: Episodes, device: torch.device, *, discount: float, seed: int) -> Policy:
    """Double Q-learning on these episodes alone: a network of the actor's size, no step that was not really taken.

    It reads states as the actor does (numbers normalised, pictures by their code); the rest of the model is unused.
    """
    part, reader = EpisodeSplit.of(episodes, 1), world.reader
    states = reader.state(torch.from_numpy(episodes.observations).to(device))
    rewards = torch.from_numpy(episodes.rewards).to(device) / world.scale
    ends, actions = (torch.from_numpy(x).to(device) for x in (episodes.ends, episodes.actions))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        values = Judge(reader, world.actor.middle.in_features, world.actions).to(device)
    later = copy.deepcopy(values)
    optimiser = torch.optim.Adam(values.parameters(), lr=RATE)
    random = np.random.default_rng([seed, len(part.rows)])
    for n in range(UPDATES):
        rows = torch.from_numpy(part.rows[random.integers(len(part.rows), size=ROWS)]).to(device)
        before, after = reader.normal(states[rows]), reader.normal(states[rows + 1])
        with torch.no_grad():
            best = values(after).argmax(-1, keepdim=True)
            goal = rewards[rows] + discount * (~ends[rows]) * later(after).gather(-1, best).squeeze(-1)
        said = values(before).gather(-1, actions[rows].unsqueeze(-1)).squeeze(-1)
        optimiser.zero_grad()
        F.smooth_l1_loss(said, goal).backward()
        optimiser.step()
        if (n + 1) % RENEWED == 0:
            later.load_state_dict(values.state_dict())

    @torch.no_grad()
    def act(observations: Observation) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        state = reader.state(torch.from_numpy(observations).to(device))
        return np.asarray(values(reader.normal(state)).argmax(-1).cpu().numpy(), np.int64)

    return act
