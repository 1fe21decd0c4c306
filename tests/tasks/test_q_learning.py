"""The baselines without a world model: double Q-learning, offline and online."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

from headway.data.environments import Environment, Plain
from headway.data.episodes import Episodes
from headway.models.observation import Tokens
from headway.models.world import World, WorldConfig
from headway.tasks.world_model import q_learning

CPU = torch.device("cpu")
STEPS = 403  # not a multiple of the turns


def world(levels: int, actions: int) -> World:
    torch.manual_seed(0)
    config = WorldConfig(observation=Tokens(levels=levels), actions=actions, width=16, layers=1, heads=2, policy=16)
    return config.build()


def test_values_are_those_of_the_bellman_equation(monkeypatch):
    """0 -> 1 -> end: action 1 goes on, and earns 1 at the end; action 0 ends at once with 0.3."""
    monkeypatch.setattr(q_learning, "UPDATES", 900)
    walks = [((0, 1), (1,), 0.0), ((0, 0), (0,), 0.3), ((1, 0), (1,), 1.0), ((1, 0), (0,), 0.3)]
    observations = np.asarray([each for seen, _, _ in walks for each in seen])[:, None]
    actions = np.asarray([each for _, done, _ in walks for each in (*done, 0)])
    rewards = np.asarray([each for _, _, given in walks for each in (given, 0.0)], np.float32)
    ends = np.asarray([False, False, True, False, True, False, True, False])
    episodes = Episodes(observations, actions, rewards, ends, np.arange(0, 9, 2), taken=4)
    values = q_learning.q_network(world(2, 2), episodes, CPU, discount=0.9, seed=0)
    found = values(torch.tensor([[0], [1]])).tolist()
    assert found[0] == pytest.approx([0.3, 0.9], abs=0.02)
    assert found[1] == pytest.approx([0.3, 1.0], abs=0.02)


class CountedEnvironment(Environment):
    """Counts the steps of all environments."""

    total = 0

    def step(self, action):
        type(self).total += 1
        return super().step(action)


def test_the_online_baseline_takes_as_many_steps_as_it_is_given(monkeypatch):
    monkeypatch.setattr(q_learning, "UPDATES", 40)
    make, model = partial(CountedEnvironment, "headway/TMaze-v0", Plain()), world(5, 3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    CountedEnvironment.total = 0
    agent = q_learning.q_agent(model, make, STEPS, CPU, discount=0.9, seed=0)
    assert CountedEnvironment.total == STEPS
    again = q_learning.q_agent(model, make, STEPS, CPU, discount=0.9, seed=0)
    other = q_learning.q_agent(model, make, STEPS, CPU, discount=0.9, seed=1)
    seen = torch.arange(5)[:, None]
    assert torch.equal(agent(seen), again(seen))
    assert not torch.equal(agent(seen), other(seen))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_the_online_baseline_learns_what_one_observation_tells(monkeypatch):
    monkeypatch.setattr(q_learning, "UPDATES", 600)
    make, model = partial(Environment, "headway/TMaze-v0", Plain()), world(5, 3)
    values = q_learning.q_agent(model, make, 1500, CPU, discount=0.9, seed=0)(torch.arange(5)[:, None])
    assert values[:3].argmax(-1).tolist() == [2, 2, 2]  # forward, to the junction
    assert values[3].argmax() != 2
