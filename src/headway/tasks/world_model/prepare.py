"""A world model at the sizes of its environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headway.data.environments import Environment, Shape, Symbols, Vector
from headway.errors import ConfigError
from headway.models.observation import Codes, Numbers, Observing, Tokens
from headway.models.world import WorldConfig
from headway.tasks.world_model.training import WorldModel, WorldTraining


def fitted(observing: Observing, shape: Shape) -> Observing:
    """How a model reads what an environment shows: as configured, at the environment's sizes."""
    if isinstance(shape, Vector):
        return Numbers(size=shape.size)
    if isinstance(shape, Symbols):
        least = 0.0 if isinstance(observing, Numbers) else observing.least
        return Tokens(parts=shape.parts, levels=shape.levels, least=least)
    return replace(observing, image=shape.size) if isinstance(observing, Codes) else Codes(image=shape.size)


def prepare_world(
    config: WorldModel,
    model: WorldConfig,
    name: str,
    folder: Path,
    *,
    batch_tokens: int,
    seed: int,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[WorldTraining, WorldConfig]:
    """The task in its run folder, and the model at the sizes of its environment. Raises ConfigError."""
    environment = Environment(name, config.view)
    observation = fitted(model.observation, environment.shape)
    if isinstance(observation, Codes) != bool(config.round.code):
        allowed = "from 1: pictures need a code" if isinstance(observation, Codes) else "0: there are no pictures"
        raise ConfigError(f"task.round.code={config.round.code}, allowed for {name}: {allowed}")
    task = WorldTraining(config, name, folder, batch_tokens=batch_tokens, seed=seed, note=note)
    sized = replace(model, observation=observation, actions=environment.actions)
    environment.close()
    return task, sized
