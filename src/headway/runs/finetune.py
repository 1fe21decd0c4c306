"""Fine-tuning's first step: a vision transformer begins with another run's weights, at its own size and classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import nn

from headway.errors import ConfigError
from headway.models import VitConfig
from headway.models.vit import fit_positions
from headway.storage.tensors import set_weights
from headway.tasks.image_classification.training import Classification
from headway.training.checkpoints import Checkpoints
from headway.runs.config import RunConfig

HEAD = "head."


def fine_tuned(recipe: RunConfig, source: RunConfig, folder: Path) -> RunConfig:
    """A recipe for the model of another run, which reads images as that one does.

    Raises ConfigError where either is no vision transformer.
    """
    for name, config in (("the preset", recipe), (str(folder), source)):
        if not isinstance(config.model, VitConfig):
            kind = type(config.model).__name__.removesuffix("Config")
            raise ConfigError(f"--init begins with a vision transformer, {name} has a model of kind {kind}")
    assert isinstance(source.task, Classification)
    assert isinstance(recipe.task, Classification)
    read = replace(recipe.task, size=source.task.size, mean=source.task.mean, std=source.task.std)
    return replace(recipe, model=source.model, task=read)


def start_from(model: nn.Module, config: RunConfig, source: RunConfig, folder: Path) -> str:
    """Give a new model the weights of a run, its positions resized; says what became of the head.

    Raises ConfigError for a model that differs in more than image size and classes, NoRunError.
    """
    before, after = source.model, config.model
    if not isinstance(before, VitConfig) or not isinstance(after, VitConfig):
        raise ConfigError(f"--init begins with a vision transformer, {folder} has none")
    weights = fit_positions(Checkpoints(folder).weights(average=source.train.average)[0], before, after)
    own = model.state_dict()
    kept = source.data.classes == config.data.classes and before.classes == after.classes
    if not kept:
        weights |= {name: tensor for name, tensor in own.items() if name.startswith(HEAD)}
    set_weights(
        model,
        {name: tensor.to(own[name].dtype) if name in own else tensor for name, tensor in weights.items()},
        str(folder),
    )
    head = "with its head" if kept else f"with a new head for {after.classes} classes"
    grids = "" if before.grid == after.grid else f", positions resized from {before.grid} to {after.grid} patches"
    return f"starting from {folder} {head}{grids}"
