"""LoRA: low-rank adapters beside frozen linear layers (Hu et al. 2022, section 4.1).

h = W·x + α/r · B·A·x with A (r, in) drawn at random and B (out, r) zero, so that an adapted model begins as the model
it adapts. Layers are exchanged from outside: attention and feed-forward networks do not know of adapters. A fused
layer (queries, keys and values) has one A for all its parts. In a file the adapters stand beside the weights they
belong to (`….lora_A`, `….lora_B`, `….lora_scale`); `merge` makes plain weights of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.nn.linear import FusedLinear
from headway.suggestions import did_you_mean

A, B, SCALE = ".lora_A", ".lora_B", ".lora_scale"  # what a layer's adapter is called in a file, after the layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters (Hu et al. 2022); all other weights are frozen but the new ones."""

    size_limits: ClassVar[dict[str, str]] = {"rank": "width"}

    rank: int = 8  # r: columns of B and rows of A
    alpha: float = 16.0  # the update is multiplied by alpha / rank
    dropout: float = 0.0  # on what an adapter reads
    targets: tuple[str, ...] = ("*attention.*", "*cross.*", "*feedforward.*")  # patterns of names of linear layers
    also: tuple[str, ...] = ()  # patterns of other parameters that train; --init adds the new ones, such as a head

    def __post_init__(self) -> None:
        positive("train.lora.rank", self.rank)
        probability("train.lora.dropout", self.dropout)
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ConfigError(f"train.lora.alpha={self.alpha}, allowed: above 0")
        if not self.targets:
            raise ConfigError("train.lora.targets is empty, allowed: patterns of linear layers such as *attention.*")

    @property
    def scale(self) -> float:
        """α/r."""
        return self.alpha / self.rank


class Adapted(nn.Linear):
    """A linear layer with an adapter; `weight` and `bias` keep their names and values."""

    lora_scale: Tensor

    def adapt(self, layer: nn.Linear, config: Lora, generator: torch.Generator) -> None:
        """Take over a layer's parameters, and draw A as the authors' code does: Kaiming uniform with a = √5."""
        self.weight, self.bias = layer.weight, layer.bias
        self.scale, self.input_dropout, self.is_merged = config.scale, config.dropout, False
        down, like = torch.empty(config.rank, layer.in_features), layer.weight
        nn.init.kaiming_uniform_(down, a=math.sqrt(5), generator=generator)
        self.lora_A = nn.Parameter(down.to(like))
        self.lora_B = nn.Parameter(like.new_zeros(layer.out_features, config.rank))
        self.register_buffer("lora_scale", torch.tensor(config.scale, device=like.device))

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        y = F.linear(x, self.weight, self.bias)
        if self.is_merged:
            return y
        inner = F.linear(F.dropout(x, self.input_dropout, self.training), self.lora_A)
        return y + self.scale * F.linear(inner, self.lora_B)


class AdaptedLinear(Adapted):
    """An adapter beside a plain linear layer."""

    def __init__(self, layer: nn.Linear, config: Lora, generator: torch.Generator) -> None:
        super().__init__(layer.in_features, layer.out_features, bias=False, device="meta")
        self.adapt(layer, config, generator)


class AdaptedFusedLinear(Adapted, FusedLinear):
    """An adapter beside a fused layer; as `forward` is not torch's own, no fused path bypasses it."""

    def __init__(self, layer: FusedLinear, config: Lora, generator: torch.Generator) -> None:
        with torch.device("meta"):
            FusedLinear.__init__(self, layer.in_features, layer.parts, bias=False, gain=layer.gain)
        self.adapt(layer, config, generator)


def add_adapters(model: nn.Module, config: Lora, *, seed: int) -> None:
    """Exchange the layers that `config.targets` names for adapted ones, in place; nothing else changes.

    Raises ConfigError for a pattern that no linear layer has.
    """
    layers = {name: part for name, part in model.named_modules() if type(part) in (nn.Linear, FusedLinear)}
    for pattern in config.targets if config.targets != Lora().targets else ():
        if not any(fnmatchcase(name, pattern) for name in layers):
            raise ConfigError(unmatched("train.lora.targets", pattern, layers))
    chosen = [name for name in layers if any(fnmatchcase(name, pattern) for pattern in config.targets)]
    if not chosen:
        raise ConfigError(unmatched("train.lora.targets", config.targets[0], layers))
    generator = torch.Generator().manual_seed(seed)
    for name in chosen:
        layer, (above, _, last) = layers[name], name.rpartition(".")
        made = AdaptedFusedLinear if isinstance(layer, FusedLinear) else AdaptedLinear
        setattr(model.get_submodule(above), last, made(layer, config, generator).train(layer.training))


def unmatched(key: str, pattern: str, names: Mapping[str, object]) -> str:
    """The message for a pattern that matches no name: near ones, or some that there are."""
    near = did_you_mean(pattern.strip("*."), names)
    shown = ", ".join(list(names)[:4])
    return f"{key}={pattern!r} matches nothing: {near}{f'there are {shown}, …' if shown else 'there is nothing'}"


@contextmanager
def merged_adapters(model: nn.Module) -> Iterator[None]:
    """The model with plain weights meanwhile; afterwards they are what they were, to the bit."""
    layers = [part for part in model.modules() if isinstance(part, Adapted)]
    before = [layer.weight.detach().clone() for layer in layers]
    try:
        for layer in layers:
            layer.weight.data.copy_(_updated(layer.weight.data, layer.lora_A.data, layer.lora_B.data, layer.scale))
            layer.is_merged = True
        yield
    finally:
        for layer, weight in zip(layers, before, strict=True):
            layer.weight.data.copy_(weight)
            layer.is_merged = False


def split_adapters(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, tuple[Tensor, Tensor, float]]]:
    """The weights of a file without adapters, and A, B and α/r of each adapted layer by its name."""
    layers = [name.removesuffix(A) for name in tensors if name.endswith(A)]
    adapters = {name: (tensors[name + A], tensors[name + B], float(tensors[name + SCALE])) for name in layers}
    return {name: x for name, x in tensors.items() if not name.endswith((A, B, SCALE))}, adapters


def merge(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a file with its adapters added to them; a file without adapters as it is."""
    weights, adapters = split_adapters(tensors)
    for name, (down, up, scale) in adapters.items():
        weights[f"{name}.weight"] = _updated(weights[f"{name}.weight"], down, up, scale)
    return weights


def _updated(weight: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
    """W + α/r·B·A, summed in float32."""
    return (weight.float() + scale * (up.float() @ down.float())).to(weight.dtype)
