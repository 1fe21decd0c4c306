"""A world model at the sizes of its environment."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from headway.data.environments import Environment
from headway.errors import ConfigError, DataError
from headway.models.observation import Codes, Tokens
from headway.models.world import WorldConfig
from headway.tasks.base import DataRequest, Prepared
from headway.tasks.observation import fit_observation
from headway.tasks.world_model.config import WorldModel
from headway.tasks.world_model.learners import ValueIteration
from headway.tasks.world_model.training import WorldTraining


def prepare(config: WorldModel, request: DataRequest) -> Prepared:
    """The task in its run folder, and the sizes of its environment. Raises ConfigError."""
    if request.accumulate != 1:
        raise ConfigError(f"train.accumulate={request.accumulate}, allowed for a world: 1")
    name, model = request.data.spec, cast(WorldConfig, request.model)
    environment = Environment(name, config.view)
    observation = fit_observation(model.observation, environment.shape)
    if isinstance(observation, Codes) != bool(config.round.code):
        allowed = "from 1: pictures need a code" if isinstance(observation, Codes) else "0: there are no pictures"
        raise ConfigError(f"task.round.code={config.round.code}, allowed for {name}: {allowed}")
    symbols = isinstance(observation, Tokens) and observation.parts == 1
    if isinstance(config.learner, ValueIteration) and not symbols:
        raise ConfigError(
            f"task.learner=value-iteration, allowed for {name}: actor-critic; its states are no one symbol"
        )
    if isinstance(config.learner, ValueIteration) and model.actor_reads != "observation":
        raise ConfigError(
            f"model.actor_reads={model.actor_reads}, allowed with task.learner=value-iteration: observation"
        )
    if config.windows == "distinct" and (not symbols or model.clock):
        raise ConfigError(
            f"task.windows=distinct, allowed for {name}: drawn; equal windows are those of one symbol a step, "
            f"without a clock"
        )
    if config.final_policy == "tried" and (isinstance(observation, Codes) or model.actor_reads != "observation"):
        raise ConfigError(
            "task.final_policy=tried, allowed here: newest; what the policy reads is learned anew in a round"
        )
    training = _training(config, request)
    sizes: dict[str, object] = {"observation": observation, "actions": environment.actions}
    environment.close()
    collected = ", ".join(f"{steps:,}" for steps in config.collect)
    facts = {
        "environment": f"{name}, {environment.actions} actions",
        "rounds": f"{len(config.collect)}, each with more environment steps: {collected}",
    }
    return Prepared(training=training, model_overrides=sizes, facts=facts)


def read(config: WorldModel, request: DataRequest) -> WorldTraining:
    """The episodes a finished run was learned from. Raises ConfigError for other data, DataError if they are gone."""
    request.expect_own()
    training = _training(config, request)
    if not training.collected:
        raise DataError(f"{request.folder}: the episodes it was trained on are missing")
    return training


def _training(config: WorldModel, request: DataRequest) -> WorldTraining:
    return WorldTraining(
        config,
        request.data.spec,
        request.folder,
        batch_tokens=request.batch_tokens,
        seed=request.seed,
        cache=Path(request.data.cache).expanduser(),
        note=request.note,
        whole_past=cast(WorldConfig, request.model).actor_reads == "features",
    )
