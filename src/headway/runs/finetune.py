"""Fine-tuning's first step: a new run begins with another run's model, tokenizer and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from headway.errors import ConfigError
from headway.runs.config import RunConfig
from headway.runs.folder import read_config, read_tokenizers
from headway.storage.tensors import set_weights
from headway.tasks.initial_weights import FinetuneSource, InitialWeights
from headway.training.checkpoints import Checkpoints

if TYPE_CHECKING:
    from headway.data.tokenizers import Tokenizer

FROM_SOURCE = ("data.tokenizer", "data.marks", "data.joint")  # settings that a fine-tuned run has from its source


def fine_tuned(recipe: RunConfig, source: RunConfig, folder: Path) -> RunConfig:
    """A recipe for the model of another run, with its tokenizer. Raises ConfigError where the two do not fit."""
    task, model = recipe.task.finetuned(recipe.model, source.task, source.model, str(folder))
    data = recipe.data
    if _shares_tokenizer(recipe, source):
        own = source.data
        data = replace(data, tokenizer=own.tokenizer, marks=own.marks, joint=own.joint)
    return replace(recipe, task=task, model=model, data=data)


def expect_free(changes: Mapping[str, object], source: RunConfig, folder: Path) -> None:
    """Raise ConfigError for a setting that a run with a tokenizer decides."""
    for key in changes:
        if source.task.has_tokenizer and any(f"{key}.".startswith(f"{each}.") for each in FROM_SOURCE):
            raise ConfigError(
                f"--{key} with --init: text is tokenised as in {folder}; leave the option out "
                "(--data.new_tokens adds tokens to its vocabulary)"
            )


def source_tokenizers(config: RunConfig, folder: Path) -> tuple[RunConfig, dict[str, Tokenizer]]:
    """The tokenizers of the run that this one begins with, and the config with their special tokens.

    Added are `data.new_tokens`, and the special tokens that the task needs and the vocabulary lacks. None are returned
    for a source without text. Raises ConfigError for more positions than the source has.
    """
    source = read_config(folder)
    _expect_positions(config, source, folder)
    if not _shares_tokenizer(config, source):
        if config.data.new_tokens:
            raise ConfigError(f"data.new_tokens: {folder} has no vocabulary that tokens could be added to")
        return config, {}
    found = {
        name: tokenizer.extended(
            config.data.new_tokens, special=config.task.special_tokens, named_special=config.task.own_special_tokens
        )
        for name, tokenizer in read_tokenizers(folder, source.data.marks).items()
    }
    marks = next((tokenizer.marks for tokenizer in found.values()), None)
    return replace(config, data=replace(config.data, marks=marks)), found


def begun_like(config: RunConfig, before: RunConfig) -> RunConfig:
    """The config of a run that goes on, with what was found when it was begun: added special tokens, new parameters."""
    config = replace(config, data=replace(config.data, marks=before.data.marks))
    lora, known = config.train.lora, before.train.lora
    if lora is None or known is None or not set(lora.also) <= set(known.also):
        return config
    return replace(config, train=replace(config.train, lora=replace(lora, also=known.also)))


def start(model: nn.Module, config: RunConfig, folder: Path) -> InitialWeights:
    """What a new model (it may be on the "meta" device) begins with. Raises ConfigError, NoRunError."""
    source = read_config(folder)
    weights = Checkpoints(folder).weights(average=source.train.average)[0]
    origin = FinetuneSource(
        folder=folder,
        task=source.task,
        model=source.model,
        data=source.data,
        weights=weights,
        seed=config.train.seed,
    )
    return config.task.initial_weights(model, config.model, config.data, origin)


def start_from(model: nn.Module, config: RunConfig, folder: Path) -> InitialWeights:
    """Give a new model the weights of a run. Raises ConfigError, NoRunError."""
    found = start(model, config, folder)
    set_weights(model, found.weights, str(folder))
    return found


def with_new_trained(config: RunConfig, begun: InitialWeights) -> RunConfig:
    """The config of a run that trains adapters, and beside them what is named, what is new and what has new rows."""
    lora = config.train.lora
    if lora is None:
        return config
    also = tuple(dict.fromkeys((*lora.also, *begun.new, *begun.grown)))
    return replace(config, train=replace(config.train, lora=replace(lora, also=also)))


def _shares_tokenizer(config: RunConfig, source: RunConfig) -> bool:
    return config.task.has_tokenizer and source.task.has_tokenizer


def _expect_positions(config: RunConfig, source: RunConfig, folder: Path) -> None:
    """Raise ConfigError for inputs that are longer than the source's positions, or than the model's."""
    key = config.task.length_key
    for text in (config.model.text, source.model.text):
        most = None if text is None else text.context
        if key and most is not None and (length := getattr(config.task, key)) > most:
            raise ConfigError(
                f"task.{key}={length:,}: the model of {folder} has {most:,} positions; allowed: up to {most:,}"
            )
