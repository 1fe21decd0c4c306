"""Environments that misbehave, and world runs small enough for tests."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np

from headway.models import WorldConfig, build_model
from headway.models.observation import Numbers, Tokens
from headway.tasks.world_model.schedule import Round
from headway.tasks.world_model.training import WorldModel, WorldTraining
from headway.training.config import TrainConfig
from headway.training.trainer import Trainer
from tests.training.small import Silent

LAKE = WorldConfig(observation=Tokens(levels=16), actions=4, width=16, layers=1, heads=2, inner=16, window=2, policy=8)
POLE = WorldConfig(observation=Numbers(size=4), actions=2, width=16, layers=1, heads=2, inner=16, window=3, policy=8)
TASK = WorldModel(collect=(120, 60), round=Round(world=4, act=3), length=6, dreams=8, horizon=4, context=1)
MAZE = replace(LAKE, observation=Tokens(levels=5), actions=3, layers=2, window=3, actor_reads="features")
TRAIN = TrainConfig(
    steps=14, batch_tokens=48, learning_rate=0.01, evaluate_every=7, save_every=7, device="cpu", average=1, keep=1
)


class Odd(gymnasium.Env):
    """Counts up to ten; in every third episode its third step goes wrong in the way that is asked for."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    wrong = "raise"
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        type(self).episodes += 1
        self.number, self.at = type(self).episodes, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at += 1
        bad = self.number % 3 == 0 and self.at == 3
        if bad and self.wrong == "raise":
            raise RuntimeError("the motor is on fire")
        value = np.nan if bad and self.wrong == "nan" else self.at
        reward = np.nan if bad and self.wrong == "reward" else 1.0
        return np.full(1, value, np.float32), reward, self.at == 10, False, {}


if "Odd-v0" not in gymnasium.registry:
    gymnasium.register("Odd-v0", entry_point=Odd)


def task(folder, name="FrozenLake-v1", config=TASK, *, seed=0, whole_past=False) -> WorldTraining:
    cache = folder / "cache"
    return WorldTraining(
        config, name, folder, batch_tokens=TRAIN.batch_tokens, seed=seed, cache=cache, whole_past=whole_past
    )


def trainer(folder, model=LAKE, name="FrozenLake-v1", config=TASK, train=TRAIN, *, seed=0) -> Trainer:
    data = task(folder, name, config, seed=seed, whole_past=model.actor_reads == "features")
    return Trainer(build_model(model, seed=seed), data, train, folder, Silent())
