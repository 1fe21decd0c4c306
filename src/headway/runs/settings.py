"""A recipe with settings of the user's: the complete config of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headway.config import override
from headway.runs.config import RunConfig
from headway.tasks.base import ignore
from headway.training.scaling import differences, shortened


def with_settings(
    recipe: RunConfig,
    changes: Mapping[str, object],
    *,
    note: Callable[[str], None] = ignore,
) -> RunConfig:
    """The recipe with values at dotted keys replaced: {"train.steps": 500, "model.position": "rotary"}.

    What follows from a change is changed with it (`Task.implied`): the model's image size with the task's.
    Fewer steps scale the warm-up, and what else is counted in steps, in proportion, unless `changes` sets that too;
    `note` gets a line for each.
    """
    implied = recipe.task.implied(recipe.model, changes)
    config = override(recipe, {**implied, **changes})
    for key, value in implied.items():
        note(f"{key} is {value} too, as {', '.join(each for each in changes if changes[each] == value)} is")
    train = shortened(config.train, recipe.train.steps, changes)
    if changed := differences(config.train, train):
        note(f"{changed}, as train.steps is {train.steps:,} of the preset's {recipe.train.steps:,}")
    return replace(config, train=train)
