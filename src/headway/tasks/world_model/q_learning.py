"""The baselines without a world model: double Q-learning (van Hasselt 2016), offline on the episodes that a run
collected, and online on as many steps of its own.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from headway.data.environments import Maker, Observation
from headway.data.episodes import Episodes, EpisodeSplit, Policy, concatenate, play, seeds_to_learn
from headway.errors import DataError, StorageError
from headway.models.world import PolicyNetwork, World
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems
from headway.storage.tensors import read_tensors
from headway.tasks.world_model.training import WorldTraining

WEIGHTS = "model.safetensors"
UPDATES, ROWS, RATE = 4000, 256, 1e-3
RENEWED = 100  # updates after which the network that values what comes next is the newest again
TURNS = 20  # of collecting and learning, for the one that collects by itself
LAST_SHARE = 0.05  # of its actions that are random from the middle of its steps on


def offline_baseline(world: World, task: WorldTraining, device: torch.device) -> Policy:
    """The greedy policy of Q-learning on a run's episodes."""
    collected = [each for part in task.collected for each in _columns(part)]
    return _kept(
        world, task, device, ["offline", *collected],
        lambda: q_network(
            world, concatenate(task.collected), device, discount=task.config.discount, seed=task.seed
        ),
    )  # fmt: skip


def online_baseline(world: World, task: WorldTraining, device: torch.device) -> Policy:
    """The greedy policy of Q-learning that collected as many environment steps as the run, by itself."""
    return _kept(
        world, task, device, ["online", task.name, task.config.view, task.taken, TURNS, LAST_SHARE],
        lambda: q_agent(
            world, task.make, task.taken, device, discount=task.config.discount, seed=task.seed
        ),
    )  # fmt: skip


def _kept(
    world: World, task: WorldTraining, device: torch.device, key: Sequence[object], train: Callable[[], PolicyNetwork]
) -> Policy:
    """A policy that is trained once, then kept in the cache; one that cannot be written costs the next call its time.

    `key` is what it depends on besides the settings, the world's normalisation, the discount and the seed.
    """
    settings = (task.config.discount, task.seed, UPDATES, ROWS, RATE, RENEWED, *_sizes(world))
    digest = hashlib.sha256(repr(settings).encode())
    read = [(name, tensor.detach().cpu().double().numpy()) for name, tensor in world.reader.state_dict().items()]
    for part in (*key, *(each for pair in read for each in pair), world.scale.detach().cpu().double().numpy()):
        digest.update(np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    folder = task.cache / f"baseline-{digest.hexdigest()[:32]}"
    with contextlib.suppress(OSError, ValueError, DataError, RuntimeError):
        if not problems(folder):
            kept = _network(world, device, task.seed)
            kept.load_state_dict(read_tensors(folder / WEIGHTS))
            return _greedy(world, kept.to(device), device)
    values = train()
    with contextlib.suppress(StorageError):
        discard(folder)
        with commit_folder(folder, shared=True) as draft:
            draft.tensors(WEIGHTS, {name: t.contiguous().cpu() for name, t in values.state_dict().items()})
    return _greedy(world, values, device)


def _columns(part: Episodes) -> tuple[NDArray[Any], ...]:
    return part.observations, part.actions, part.rewards, part.ends, part.starts


def _sizes(world: World) -> tuple[int, int]:
    return world.actor.middle.in_features, world.actions


def _network(world: World, device: torch.device, seed: int) -> PolicyNetwork:
    """A network of the actor's size, drawn from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return PolicyNetwork(world.reader, *_sizes(world)).to(device)


class QLearner:
    """A network of the actor's size that learns the values of actions, by double Q-learning with a replay memory.

    It reads states as the actor does (numbers normalised, pictures by their code); the rest of the model is unused.
    """

    def __init__(self, world: World, device: torch.device, *, discount: float, seed: int) -> None:
        self.world, self.device, self.discount = world, device, discount
        self.values = _network(world, device, seed)
        self.later = copy.deepcopy(self.values)
        self.optimiser = torch.optim.Adam(self.values.parameters(), lr=RATE)
        self.updates = 0

    def learn(self, episodes: Episodes, updates: int, random: np.random.Generator) -> None:
        """Go on with these episodes as the memory."""
        part, reader, values = EpisodeSplit.of(episodes, 1), self.world.reader, self.values
        states = reader.state(torch.from_numpy(episodes.observations).to(self.device))
        rewards = torch.from_numpy(episodes.rewards).to(self.device) / self.world.scale
        ends, actions = (torch.from_numpy(x).to(self.device) for x in (episodes.ends, episodes.actions))
        for _ in range(updates):
            rows = torch.from_numpy(part.rows[random.integers(len(part.rows), size=ROWS)]).to(self.device)
            before, after = reader.normal(states[rows]), reader.normal(states[rows + 1])
            with torch.no_grad():
                best = values(after).argmax(-1, keepdim=True)
                ahead = self.later(after).gather(-1, best).squeeze(-1)
                goal = rewards[rows] + self.discount * (~ends[rows]) * ahead
            said = values(before).gather(-1, actions[rows].unsqueeze(-1)).squeeze(-1)
            self.optimiser.zero_grad()
            F.smooth_l1_loss(said, goal).backward()
            self.optimiser.step()
            self.updates += 1
            if self.updates % RENEWED == 0:
                self.later.load_state_dict(values.state_dict())


def q_network(world: World, episodes: Episodes, device: torch.device, *, discount: float, seed: int) -> PolicyNetwork:
    """Double Q-learning on these episodes alone: no step that was not really taken."""
    learner = QLearner(world, device, discount=discount, seed=seed)
    rows = int(episodes.lengths.sum())
    learner.learn(episodes, UPDATES, np.random.default_rng([seed, rows]))
    return learner.values


def q_agent(
    world: World, make: Maker, steps: int, device: torch.device, *, discount: float, seed: int
) -> PolicyNetwork:
    """Double Q-learning that collects its own episodes, so many environment steps of them, as a DQN does.

    The share of random actions falls from 1 to `LAST_SHARE` along a line in the first half of the steps.
    """
    learner = QLearner(world, device, discount=discount, seed=seed)
    act, random, seeds = _greedy(world, learner.values, device), np.random.default_rng(seed), seeds_to_learn(seed)
    parts: list[Episodes] = []
    for n, budget in enumerate(np.diff(np.linspace(0, steps, TURNS + 1).astype(int)).tolist()):
        explore = _partly_random(act, world.actions, max(1 - 2 * n / TURNS, LAST_SHARE), random)
        with contextlib.suppress(DataError):  # every episode of this turn broke
            parts.append(play(make, explore, seeds, budget=budget, together=1))
        if parts:
            learner.learn(concatenate(parts), UPDATES // TURNS, random)
    return learner.values


def _partly_random(act: Policy, actions: int, share: float, random: np.random.Generator) -> Policy:
    def explore(seen: Observation) -> NDArray[np.int64]:
        anything = random.integers(actions, size=len(seen))
        return np.where(random.random(len(seen)) < share, anything, act(seen))

    return explore


def _greedy(world: World, values: PolicyNetwork, device: torch.device) -> Policy:
    reader = world.reader

    @torch.no_grad()
    def act(observations: Observation) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        state = reader.state(torch.from_numpy(observations).to(device))
        return np.asarray(values(reader.normal(state)).argmax(-1).cpu().numpy(), np.int64)

    return act
