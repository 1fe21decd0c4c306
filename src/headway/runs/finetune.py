"""Fine-tuning's first step: a new run begins with another run's weights, as its task says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import nn

from headway.runs.config import RunConfig
from headway.storage.tensors import set_weights
from headway.tasks.base import FinetuneSource
from headway.training.checkpoints import Checkpoints


def fine_tuned(recipe: RunConfig, source: RunConfig, folder: Path) -> RunConfig:
    """A recipe for the model of another run. Raises ConfigError where the two do not go together."""
    task, model = recipe.task.finetuned(recipe.model, source.task, source.model, str(folder))
    return replace(recipe, task=task, model=model)


def start_from(model: nn.Module, config: RunConfig, source: RunConfig, folder: Path) -> str:
    """Give a new model the weights of a run; says what was taken. Raises ConfigError, NoRunError."""
    weights = Checkpoints(folder).weights(average=source.train.average)[0]
    origin = FinetuneSource(folder=folder, model=source.model, data=source.data, weights=weights)
    chosen, told = config.task.initial_weights(model, config.model, config.data, origin)
    own = model.state_dict()
    cast = {name: tensor.to(own[name].dtype) if name in own else tensor for name, tensor in chosen.items()}
    set_weights(model, cast, str(folder))
    return f"starting from {folder} {told}"
