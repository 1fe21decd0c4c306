"""A family of models as Hugging Face keeps it: its config and its tensors beside ours, both ways.

Every tensor of ours is one `Part`: which tensors of theirs it is made of, and how. A part can be undone, so that one
table serves taking a model up and handing it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.models import ModelConfig
from headway.nn.linear import FusedLinear
from headway.tasks.language import Language
from headway.tasks.masked import Masked
from headway.tasks.translation import Translation

Shape = tuple[int, ...]
# Ours <- theirs. Where there are several of theirs, ours holds them joined by rows. A line stands for a weight and,
# where there is one, its bias; {i} is the layer. A line for one tensor gives its whole name on both sides.
Names = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One tensor of ours and the tensors of theirs that it is made of."""

    ours: str
    theirs: tuple[str, ...]
    shape: Shape  # of ours
    rows: Shape  # of ours that each of theirs makes up
    turned: bool = False  # theirs is (in, out)
    leading: int = 0  # rows theirs has in front that no token reaches: dropped on the way in, zeros on the way out
    flat: bool = False  # theirs has an axis of 1 in front
    row_order: Tensor | None = None  # which row of ours is the n-th of theirs
    column_order: Tensor | None = None

    @property
    def shapes(self) -> list[Shape]:
        """Of each of theirs."""
        found: list[Shape] = []
        for rows in self.rows:
            shape = (rows + self.leading, *self.shape[1:])
            shape = shape[::-1] if self.turned else shape
            found.append((1, *shape) if self.flat else shape)
        return found

    def assemble(self, tensors: Iterable[Tensor]) -> Tensor:
        """Theirs, in the order of `theirs` -> ours."""
        plain = [x.squeeze(0) if self.flat else x for x in tensors]
        plain = [(x.mT if self.turned else x)[self.leading :] for x in plain]
        ours = plain[0] if len(plain) == 1 else torch.cat(plain)
        if self.row_order is not None:
            ours = ours[self.row_order.argsort()]
        return ours if self.column_order is None else ours[:, self.column_order.argsort()]

    def divide(self, ours: Tensor) -> list[Tensor]:
        """Ours -> theirs, in the order of `theirs`."""
        if self.column_order is not None:
            ours = ours[:, self.column_order]
        if self.row_order is not None:
            ours = ours[self.row_order]
        pieces = list(ours.split(self.rows))
        if self.leading:
            pieces = [torch.cat([x.new_zeros(self.leading, *x.shape[1:]), x]) for x in pieces]
        pieces = [x.mT if self.turned else x for x in pieces]
        return [x.unsqueeze(0) if self.flat else x for x in pieces]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The ids that steer generation; they belong to a model's config, whatever its tokenizer says."""

    start: int | None = None  # a decoder's first input
    stop: tuple[int, ...] = ()
    pad: int | None = None
    banned: tuple[int, ...] = ()  # never generated


Task = Language | Masked | Translation


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a config.json says, in our words."""

    model: ModelConfig
    task: Task | None  # None: an encoder without a head to train
    tokens: Tokens = Tokens()


def _as_is(name: str, model: ModelConfig) -> str:
    return name


def _nothing(model: ModelConfig) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How one `model_type` is read and written."""

    name: str
    architectures: tuple[str, ...]  # those that can be taken up; each is written where it fits
    # config.json and the shapes of the tensors by name -> ours. Raises BadModelError for what has no equivalent here.
    read: Callable[[Mapping[str, Any], Mapping[str, Shape]], Imported]
    # Ours -> config.json. Raises ConfigError naming the part that has no equivalent there.
    write: Callable[[ModelConfig, Tokens], dict[str, Any]]
    # Every tensor of our model once.
    parts: Callable[[ModelConfig], list[Part]]
    # Another spelling of a tensor's name (an older one, one without prefix) -> the one in `parts`.
    canonical: Callable[[str, ModelConfig], str] = _as_is
    # Whether a tensor of theirs says nothing a config does not (masks, position ids, sinusoids).
    ignored: Callable[[str], bool] = field(default=lambda name: False)
    # Second copies by name, and what each must equal where it is there.
    copies: Callable[[ModelConfig], dict[str, str]] = _nothing
    # Tensors of theirs that ours does without, which are written as zeros: with them the maths is the same.
    zeros: Callable[[ModelConfig], dict[str, Shape]] = _nothing


def parts_of(model: nn.Module, names: Names, *, turned: Callable[[str], bool] = lambda name: False) -> list[Part]:
    """A part for each tensor of a model (one on "meta" will do). Raises KeyError for a tensor without a line."""
    found = []
    for name, tensor in model.state_dict().items():
        module, _, kind = name.rpartition(".")
        layer = next(iter(re.findall(r"\.(\d+)\.", name)), "")
        whole = name.replace(f".{layer}.", ".{i}.") if layer else name
        lines = names.get(whole) or tuple(f"{line}.{kind}" for line in names[whole.rpartition(".")[0]])
        holder = model.get_submodule(module)
        rows = tuple(holder.parts) if isinstance(holder, FusedLinear) and len(lines) > 1 else (tensor.shape[0],)
        theirs = tuple(line.replace("{i}", layer) for line in lines)
        is_turned = tensor.ndim == 2 and turned(theirs[0])
        found.append(Part(ours=name, theirs=theirs, shape=tuple(tensor.shape), rows=rows, turned=is_turned))
    return found


def assembled(parts: Iterable[Part], theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under their names (weights, or gradients of them) -> under ours. Raises KeyError for one too few."""
    return {part.ours: part.assemble([theirs[name] for name in part.theirs]) for part in parts}


def divided(parts: Iterable[Part], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names -> under theirs."""
    return {name: x for part in parts for name, x in zip(part.theirs, part.divide(ours[part.ours]), strict=True)}
