"""A family of models as Hugging Face keeps it: its config and its tensors beside ours, both ways.

Every tensor of ours is one `Part`: which tensors of theirs it is made of, and how. A part can be undone, so that one
table serves taking a model up and handing it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from headway.errors import BadModelError
from headway.models import ModelConfig, build_model
from headway.nn.linear import FusedLinear
from headway.nn.patches import from_convolution, to_convolution
from headway.tasks.language_modelling.training import Language
from headway.tasks.masked_lm.training import Masked
from headway.tasks.translation.training import Translation

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
    flat: int = 0  # axes of 1 that theirs has in front
    patch: int = 0  # theirs is a convolution over patches of so many pixels a side (D, C, P, P), ours (D, P·P·C)
    repeated: bool = False  # theirs holds the same numbers under each name
    row_order: Tensor | None = None  # which row of ours is the n-th of theirs
    column_order: Tensor | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """Those of theirs that must be there: of repeated ones, one will do."""
        return self.theirs[:1] if self.repeated else self.theirs

    @property
    def shapes(self) -> list[Shape]:
        """Of each of theirs."""
        found: list[Shape] = []
        for rows in self.rows:
            shape = (rows + self.leading, *self.shape[1:])
            if self.patch:
                shape = (rows, shape[1] // self.patch**2, self.patch, self.patch)
            found.append((1,) * self.flat + (shape[::-1] if self.turned else shape))
        return found

    def assemble(self, tensors: Iterable[Tensor]) -> Tensor:
        """Theirs, in the order of `needed` -> ours."""
        plain = [x.flatten(0, self.flat) if self.flat else x for x in tensors]
        plain = [from_convolution(x) if self.patch else x for x in plain]
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
        pieces = [ours] * len(self.theirs) if self.repeated else list(ours.split(self.rows))
        if self.leading:
            pieces = [torch.cat([x.new_zeros(self.leading, *x.shape[1:]), x]) for x in pieces]
        pieces = [to_convolution(x, self.patch) if self.patch else x for x in pieces]
        pieces = [x.mT if self.turned else x for x in pieces]
        return [x.view((1,) * self.flat + x.shape) if self.flat else x for x in pieces]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The ids that steer generation; they belong to a model's config, whatever its tokenizer says."""

    start: int | None = None  # a decoder's first input
    stop: tuple[int, ...] = ()
    pad: int | None = None
    banned: tuple[int, ...] = ()  # never generated

    @property
    def written_stop(self) -> int | list[int] | None:
        """As a config.json has it: one id, a list of several, or none."""
        return list(self.stop) if len(self.stop) > 1 else next(iter(self.stop), None)


Task = Language | Masked | Translation


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a config.json says, in our words."""

    model: ModelConfig
    task: Task | None  # None: an encoder without a head to train
    tokens: Tokens = Tokens()


def _as_is(name: str, model: ModelConfig) -> str:
    return name


def _itself(model: ModelConfig) -> ModelConfig:
    return model


def _none(model: ModelConfig) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How one `model_type` is read and written."""

    name: str
    architectures: tuple[str, ...]  # those that can be taken up
    # config.json and the shapes of the tensors by name -> ours. Raises BadModelError for what has no equivalent here.
    read: Callable[[Mapping[str, Any], Mapping[str, Shape]], Imported]
    # Ours -> config.json. Raises ConfigError naming the part that has no equivalent there.
    write: Callable[[ModelConfig, Tokens], dict[str, Any]]
    # Every tensor of our model once, but for those that are left out.
    parts: Callable[[ModelConfig], list[Part]]
    # Another spelling of a tensor's name (an older one, one without prefix) -> the one in `parts`.
    canonical: Callable[[str, ModelConfig], str] = _as_is
    # Whether a tensor of theirs says nothing that a config does not (masks, position ids, sinusoids).
    ignored: Callable[[str], bool] = field(default=lambda name: False)
    # Second copies of tied tensors by name -> the name in `parts`; a file may hold either, or both if they are equal.
    copies: Callable[[ModelConfig], dict[str, str]] = _none
    # The model with every bias that theirs always has: where ours has none, zeros are written, which change nothing.
    full: Callable[[ModelConfig], ModelConfig] = _itself
    # Tensors that theirs keeps and ours computes from its config.
    constants: Callable[[ModelConfig], dict[str, Tensor]] = field(default=lambda model: {})
    # Tensors of ours, by their beginnings, that theirs has no place for and that its outputs do not need.
    left_out: Callable[[ModelConfig], tuple[str, ...]] = field(default=lambda model: ())


@dataclass(frozen=True, slots=True)
class Match:
    """A file's tensors beside those a model needs, by name."""

    found: dict[str, str]  # the name in `parts` -> the name in the file
    equal: list[tuple[str, str]]  # names in the file that must hold the same numbers
    missing: list[str]
    extra: list[str]


def match(family: Family, model: ModelConfig, names: Iterable[str]) -> Match:
    """Which tensor of a file is which of the model's."""
    parts, copies = family.parts(model), family.copies(model)
    wanted = {name for part in parts for name in part.theirs}
    found: dict[str, str] = {}
    seconds: list[tuple[str, str]] = []
    extra = []
    for name in names:
        plain = family.canonical(name, model)
        if plain in wanted and plain not in found:
            found[plain] = name
        elif plain in copies:
            seconds.append((copies[plain], name))
        elif not family.ignored(plain):
            extra.append(name)
    equal = [(found[plain], name) for plain, name in seconds if found.setdefault(plain, name) != name]
    for part in parts:
        for name in part.theirs if part.repeated else ():
            if name in found:
                found.setdefault(part.theirs[0], found[name])
    missing = [name for part in parts for name in part.needed if name not in found]
    return Match(found, equal, missing, extra)


def parts_of(
    model: ModelConfig,
    names: Names,
    *,
    turned: Callable[[str], bool] = lambda name: False,
    left_out: tuple[str, ...] = (),
) -> list[Part]:
    """A part for each tensor of a model. Raises KeyError for a tensor without a line in the table of names."""
    found, built = [], build_model(model, device="meta")
    for name, tensor in built.state_dict().items():
        if name.startswith(left_out):
            continue
        module, _, kind = name.rpartition(".")
        layer = next(iter(re.findall(r"\.(\d+)\.", name)), "")
        line = name.replace(f".{layer}.", ".{i}.") if layer else name
        lines = names.get(line) or tuple(f"{each}.{kind}" for each in names[line.rpartition(".")[0]])
        theirs = tuple(each.replace("{i}", layer) for each in lines)
        holder = built.get_submodule(module)
        rows: Shape = (tensor.shape[0],) * len(theirs)
        if isinstance(holder, FusedLinear) and len(theirs) > 1:
            rows = holder.parts
        is_turned = tensor.ndim == 2 and turned(theirs[0])
        found.append(Part(ours=name, theirs=theirs, shape=tuple(tensor.shape), rows=rows, turned=is_turned))
    return found


def assembled(parts: Iterable[Part], theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under their names (weights, or gradients of them) -> under ours. Raises KeyError for one too few."""
    return {part.ours: part.assemble([theirs[name] for name in part.needed]) for part in parts}


def taken(family: Family, model: ModelConfig, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All of a model's tensors from theirs in memory. Raises BadModelError naming any too few or too many."""
    matched = match(family, model, theirs)
    wrong = [f"{name} is missing" for name in matched.missing]
    wrong += [f"{name} has no place in the model" for name in matched.extra]
    wrong += [f"{a} and {b} are tied and differ" for a, b in matched.equal if not torch.equal(theirs[a], theirs[b])]
    if wrong:
        raise BadModelError("; ".join(wrong))
    return assembled(family.parts(model), {plain: theirs[name] for plain, name in matched.found.items()})


def divided(parts: Iterable[Part], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names -> under theirs."""
    return {name: x for part in parts for name, x in zip(part.theirs, part.divide(ours[part.ours]), strict=True)}


def given(family: Family, model: ModelConfig, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All of their tensors from ours: what ours does without is zero there, what ours computes is written out."""
    found = divided(family.parts(model), ours) | family.constants(model)
    for part in family.parts(family.full(model)):
        for name, shape in zip(part.theirs, part.shapes, strict=True):
            if name not in found:
                found[name] = torch.zeros(shape)
    return found


def reordered(parts: Iterable[Part], order: Tensor, axes: Callable[[str], tuple[bool, bool]]) -> list[Part]:
    """The parts with their rows, their columns or both in another order; `axes` says which, for a tensor of ours."""
    found = []
    for part in parts:
        rows, columns = axes(part.ours)
        found.append(
            replace(
                part, row_order=order if rows else part.row_order, column_order=order if columns else part.column_order
            )
        )
    return found
