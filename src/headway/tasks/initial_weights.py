"""The weights that a fine-tuned model begins with: those of another run by name, the rest new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from headway.data.files import listed
from headway.errors import ConfigError
from headway.models.backbone import backbone_of, fit_weights

if TYPE_CHECKING:
    from headway.data.config import DataConfig
    from headway.models import ModelConfig
    from headway.tasks.base import Task

NOISE = 0.01  # of a new token's vector, as a share of the standard deviation of its table
SHOWN = 6  # names in a line


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneSource:
    """The run whose weights another one begins with."""

    folder: Path
    task: Task
    model: ModelConfig
    data: DataConfig
    weights: Mapping[str, Tensor]
    seed: int = 0  # of what is drawn for new tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialWeights:
    """The weights of a fine-tuned model, and where they come from."""

    weights: Mapping[str, Tensor]  # of the whole model
    taken: tuple[str, ...]  # those that come from the source run
    grown: tuple[str, ...] = ()  # of those: with rows for new tokens
    dropped: tuple[str, ...] = ()  # of the source run, by its own names: those with no place here
    notes: tuple[str, ...] = field(default=())  # what was changed: "positions resized …"

    @property
    def new(self) -> tuple[str, ...]:
        """Those that are drawn at random."""
        taken = set(self.taken)
        return tuple(name for name in self.weights if name not in taken)

    def facts(self, origin: str) -> dict[str, str]:
        """Lines shown before training: which weights are taken, which are new, and which are dropped."""
        count = sum(self.weights[name].numel() for name in self.taken)
        begun = f"{origin}: {len(self.taken):,} of {len(self.weights):,} tensors, {count:,} parameters"
        facts = {"begins with": ", ".join([begun, *self.notes])}
        for name, names in (("new", self.new), ("dropped", self.dropped)):
            if names:
                facts[name] = listed(_short(names), most=SHOWN)
        return facts


def initial_weights(model: nn.Module, config: ModelConfig, data: DataConfig, source: FinetuneSource) -> InitialWeights:
    """The source run's backbone, and its heads too where both models are of one kind and have the same classes.

    The vocabulary may have grown: the vectors of new tokens are the mean of the others with a little noise (Hewitt
    2021, "Initializing New Word Embeddings for Pretrained Language Models"). Raises ConfigError for other sizes.
    """
    before, after = backbone_of(source.model), backbone_of(config)
    inner = {name.removeprefix(before.prefix): x for name, x in source.weights.items() if before.has(name)}
    fitted = fit_weights(inner, before.config, after.config)
    origin = {after.prefix + name: before.prefix + name for name in fitted}
    found = {after.prefix + name: tensor for name, tensor in fitted.items()}
    if type(source.model) is type(config) and source.data.classes == data.classes:
        heads = {name: tensor for name, tensor in source.weights.items() if not before.has(name)}
        found, origin = {**heads, **found}, {**{name: name for name in heads}, **origin}
    own = model.state_dict()
    grown = _grown(source.model, config)
    generator = torch.Generator().manual_seed(source.seed)
    weights, taken, longer = dict(own), [], []
    for name, tensor in own.items():
        if name not in found:
            continue
        given = found[name].to(tensor.dtype)
        if given.shape != tensor.shape and given.shape[1:] == tensor.shape[1:] and (len(given), len(tensor)) in grown:
            given = _with_rows(given, len(tensor) - len(given), generator)
            longer.append(name)
        if given.shape != tensor.shape:
            shapes = f"{tuple(given.shape)} there, {tuple(tensor.shape)} here"
            raise ConfigError(
                f"--init {source.folder}: {name} has shape {shapes}; leave out options that change the model's sizes"
            )
        weights[name] = given
        taken.append(name)
    used = {origin[name] for name in taken}
    return InitialWeights(
        weights=weights,
        taken=tuple(taken),
        grown=tuple(longer),
        dropped=tuple(name for name in source.weights if name not in used),
        notes=(
            *_resized(before.config, after.config),
            *(f"{name} has {len(weights[name]) - len(found[name]):,} new rows" for name in longer),
        ),
    )


def _grown(before: ModelConfig, after: ModelConfig) -> set[tuple[int, int]]:
    """Sizes of vocabularies that have grown: before and after."""
    old, new = before.text, after.text
    if old is None or new is None:
        return set()
    sizes = {(old.vocab, new.vocab), (old.source_vocab or old.vocab, new.source_vocab or new.vocab)}
    return {(few, many) for few, many in sizes if few < many}


def _with_rows(table: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """A table (V, …) with `count` new rows: the mean of the others, and a little noise."""
    exact = table.float()
    noise = torch.randn(count, *table.shape[1:], generator=generator) * (NOISE * exact.std())
    return torch.cat([table, (exact.mean(0, keepdim=True) + noise).to(table.dtype)])


def _resized(before: ModelConfig, after: ModelConfig) -> Sequence[str]:
    """A line about the positions of patches."""
    old, new = (getattr(each, "grid", None) for each in (before, after))
    return [f"positions resized from {old} to {new} patches"] if old != new else []


def _short(names: Sequence[str]) -> list[str]:
    """Parameters by the layer they belong to: "head" for its weight and its bias."""
    return list(dict.fromkeys(name.rpartition(".")[0] or name for name in names))
