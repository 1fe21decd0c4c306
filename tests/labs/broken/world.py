from __future__ import annotations

from headway.config import override
from headway.labs import world
from tests.labs.broken import Mutation

CONFIGS = world.configs_of


def without_a_model(parameters, seed, quick):
    """A model that has hardly learned: what is planned in it is worth nothing in the world."""
    short = {"task.collect": (400,), "task.round.world": 2, "task.round.act": 1, "train.steps": 3}
    return {each: override(config, short) for each, config in CONFIGS(parameters, seed, quick).items()}


BROKEN = (Mutation("configs_of", without_a_model, fails="return of the worst run"),)
