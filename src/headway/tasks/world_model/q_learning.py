"""The baseline: a policy from the same episodes without the world model, by double Q-learning (van Hasselt 2016)."""

from __future__ import annotations

import contextlib
import copy
import hashlib

import numpy as np
import torch
import torch.nn.functional as F

from headway.data.environments import Observation
from headway.data.episodes import Episodes, EpisodeSplit, Policy, concatenate
from headway.errors import DataError, StorageError
from headway.models.world import PolicyNetwork, World
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems
from headway.storage.tensors import read_tensors
from headway.tasks.world_model.training import WorldTraining

WEIGHTS = "model.safetensors"
UPDATES, ROWS, RATE = 4000, 256, 1e-3
RENEWED = 100  # updates after which the network that values what comes next is the newest again


def baseline(world: World, task: WorldTraining, device: torch.device) -> Policy:
    """The greedy policy of Q-learning on a run's episodes: trained once, then kept in the cache.

    A cache that cannot be written only costs the next call its time.
    """
    folder = task.cache / f"baseline-{_key(world, task)[:32]}"
    with contextlib.suppress(OSError, ValueError, DataError, RuntimeError):
        if not problems(folder):
            kept = _network(world, device, task.seed)
            kept.load_state_dict(read_tensors(folder / WEIGHTS))
            return _greedy(world, kept.to(device), device)
    values = q_network(world, concatenate(task.collected), device, discount=task.config.discount, seed=task.seed)
    with contextlib.suppress(StorageError):
        discard(folder)
        with commit_folder(folder, shared=True) as draft:
            draft.tensors(WEIGHTS, {name: t.contiguous().cpu() for name, t in values.state_dict().items()})
    return _greedy(world, values, device)


def _key(world: World, task: WorldTraining) -> str:
    """What the baseline depends on: the episodes, the state's normalisation, the discount and the seed."""
    sizes = (world.actor.middle.in_features, world.actions)
    settings = (task.config.discount, task.seed, UPDATES, ROWS, RATE, RENEWED, *sizes)
    digest = hashlib.sha256(repr(settings).encode())
    for part in task.collected:
        for array in (part.observations, part.actions, part.rewards, part.ends, part.starts):
            digest.update(np.ascontiguousarray(array).tobytes())
    for name, tensor in (*world.reader.state_dict().items(), ("scale", world.scale)):
        digest.update(name.encode() + tensor.detach().cpu().double().numpy().tobytes())
    return digest.hexdigest()


def _network(world: World, device: torch.device, seed: int) -> PolicyNetwork:
    """A network of the actor's size, drawn from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return PolicyNetwork(world.reader, world.actor.middle.in_features, world.actions).to(device)


def q_network(world: World, episodes: Episodes, device: torch.device, *, discount: float, seed: int) -> PolicyNetwork:
    """Double Q-learning on these episodes alone: a network of the actor's size, no step that was not really taken.

    It reads states as the actor does (numbers normalised, pictures by their code); the rest of the model is unused.
    """
    part, reader = EpisodeSplit.of(episodes, 1), world.reader
    states = reader.state(torch.from_numpy(episodes.observations).to(device))
    rewards = torch.from_numpy(episodes.rewards).to(device) / world.scale
    ends, actions = (torch.from_numpy(x).to(device) for x in (episodes.ends, episodes.actions))
    values = _network(world, device, seed)
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
    return values


def _greedy(world: World, values: PolicyNetwork, device: torch.device) -> Policy:
    reader = world.reader

    @torch.no_grad()
    def act(observations: Observation) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        state = reader.state(torch.from_numpy(observations).to(device))
        return np.asarray(values(reader.normal(state)).argmax(-1).cpu().numpy(), np.int64)

    return act
