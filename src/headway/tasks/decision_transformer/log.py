"""A log of episodes for a run that has none: each by another policy, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from headway.data.environments import Maker, Observation
from headway.data.episodes import Episodes, Policy, concatenate, play, seeds_to_learn
from headway.tasks.decision_transformer.config import Deciding


def logged(config: Deciding, make: Maker, seed: int) -> Episodes:
    """A log of episodes, each by another policy drawn at random: few are any good, which is what a log is like."""
    seeds, random, parts, taken = seeds_to_learn(seed), np.random.default_rng([seed, 1]), [], 0
    actions = make().actions
    while taken < config.log:
        policy = _drawn_policy(actions, config.noise, random)
        parts.append(play(make, policy, iter([next(seeds)]), budget=config.log - taken, together=1))
        taken += parts[-1].taken
    return concatenate(parts)


def _drawn_policy(actions: int, noise: float, random: np.random.Generator) -> Policy:
    """The best action by random weights of the observation, save for a random share of chance."""
    weights: dict[int, Any] = {}
    chance = noise * random.random()

    def act(observations: Observation) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        flat = observations.reshape(len(observations), -1)
        if observations.dtype == np.float32:
            table = weights.setdefault(0, random.normal(size=(flat.shape[1], actions)))
            best = (flat @ table).argmax(-1)
        else:
            best = np.asarray([weights.setdefault(hash(row.tobytes()), random.integers(actions)) for row in flat])
        return np.where(random.random(len(flat)) < chance, random.integers(actions, size=len(flat)), best)

    return act
