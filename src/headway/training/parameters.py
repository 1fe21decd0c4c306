"""Which parameters of a model are trained, and at which share of the learning rate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from torch import nn

from headway.errors import ConfigError
from headway.nn.lora import Adapted, add_adapters, unmatched
from headway.training.config import TrainConfig

_BLOCK = re.compile(r"(?:^|(?P<stack>.*)\.)blocks\.(?P<number>\d+)\.")
# What stands before the first block, by parts of names.
_INPUTS = re.compile(r"(?:^|\.)(?:\w*embedding|input_positions|input_norm|positions|patches|class_token)(?:\.|$)")


def choose_parameters(model: nn.Module, config: TrainConfig) -> None:
    """Add the adapters of `train.lora`, and freeze all else but `also`; freeze what `train.freeze` names.

    Raises ConfigError for a pattern that matches nothing, or if nothing is left to train.
    """
    if config.lora is not None:
        also = _matching(model, "train.lora.also", config.lora.also)
        add_adapters(model, config.lora, seed=config.seed)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in also or name.endswith((".lora_A", ".lora_B")))
    frozen = _matching(model, "train.freeze", config.freeze)
    for name, parameter in model.named_parameters():
        if name in frozen:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(f"train.freeze={','.join(config.freeze)}: nothing is left to train")


def trained_count(model: nn.Module) -> int:
    """The parameters that are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def adapted_layers(model: nn.Module) -> int:
    """How many layers have an adapter."""
    return sum(isinstance(part, Adapted) for part in model.modules())


def layer_shares(model: nn.Module, decay: float) -> dict[str, float]:
    """Each parameter's share of the learning rate: decay^d, d counted from the top (Clark et al. 2020).

    What stands behind the last block has d = 0, the last block 1, the first block as many as there are blocks,
    embeddings and what else reads the input one more. The authors' code counts one more from the blocks down. A decoder
    stands on top of its encoder. Raises ConfigError for a model without blocks.
    """
    names = [name for name, _ in model.named_parameters()]
    blocks: list[tuple[str, int]] = []
    for name in names:
        if (found := _block(name)) is not None and found not in blocks:
            blocks.append(found)
    if not blocks:
        raise ConfigError(f"train.layer_decay={decay}: this model has no blocks; allowed for it: 1")
    stacks = list(dict.fromkeys(stack for stack, _ in blocks))
    order = sorted(blocks, key=lambda each: (stacks.index(each[0]), each[1]))
    distance = {block: len(order) - n for n, block in enumerate(order)}

    def share(name: str) -> float:
        block = _block(name)
        if block is not None:
            return float(decay ** distance[block])
        return float(decay ** (len(order) + 1)) if _INPUTS.search(name) else 1.0

    return {name: share(name) for name in names}


def _block(name: str) -> tuple[str, int] | None:
    found = _BLOCK.match(name)
    return None if found is None else (found["stack"] or "", int(found["number"]))


def _matching(model: nn.Module, key: str, patterns: Iterable[str]) -> set[str]:
    """The names of parameters that match. Raises ConfigError for a pattern that matches none, with near names."""
    names = dict(model.named_parameters())
    found: set[str] = set()
    for pattern in patterns:
        matching = {name for name in names if fnmatchcase(name, pattern)}
        if not matching:
            raise ConfigError(unmatched(key, pattern, names))
        found |= matching
    return found
