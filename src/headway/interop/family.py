"""A model family of Hugging Face: its config.json and its tensors beside headway's, in both directions.

A `WeightMapping` says which tensors of a file make up one tensor of headway's model, and how. It can be inverted, so
one table of names serves import and export. `name` is always headway's, `hf_names` are those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from headway.errors import BadModelError
from headway.models import ModelConfig, build_model
from headway.nn.linear import FusedLinear
from headway.nn.patches import from_convolution, to_convolution
from headway.tasks.base import Task

C = TypeVar("C", bound="ModelConfig")
Shape = tuple[int, ...]
# headway's name -> the names in the file. Several tensors of the file are joined by rows. An entry covers a weight and,
# where there is one, its bias; {i} is the layer. An entry for a single tensor has the full name on both sides.
Names = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightMapping:
    """One tensor of headway's model and the tensors of the file that make it up."""

    name: str
    hf_names: tuple[str, ...]
    shape: Shape  # of headway's tensor
    rows: Shape  # of headway's tensor that each tensor of the file makes up
    transposed: bool = False  # the file has (in, out)
    unused_rows: int = 0  # leading rows of the file's table that no token reaches: dropped on import, zeros on export
    unit_axes: int = 0  # leading axes of size 1 in the file
    patch: int = 0  # above 0: the file has a convolution (D, C, P, P) over patches of P pixels, headway (D, P·P·C)
    factor: float = 1.0  # headway's tensor is the file's times this
    duplicated: bool = False  # the file has the same numbers under each name
    row_order: Tensor | None = None  # which row of headway's tensor is the n-th of the file's
    column_order: Tensor | None = None

    @property
    def required(self) -> tuple[str, ...]:
        """The tensors a file must have: of duplicates, one."""
        return self.hf_names[:1] if self.duplicated else self.hf_names

    @property
    def hf_shapes(self) -> list[Shape]:
        """The shape of each tensor of the file."""
        shapes: list[Shape] = []
        for rows in self.rows:
            shape = (rows + self.unused_rows, *self.shape[1:])
            if self.patch:
                shape = (rows, shape[1] // self.patch**2, self.patch, self.patch)
            shapes.append((1,) * self.unit_axes + (shape[::-1] if self.transposed else shape))
        return shapes

    def from_hf(self, tensors: Iterable[Tensor]) -> Tensor:
        """Tensors of the file, in the order of `required` -> headway's tensor."""
        pieces = [x.flatten(0, self.unit_axes) if self.unit_axes else x for x in tensors]
        pieces = [from_convolution(x) if self.patch else x for x in pieces]
        pieces = [(x.mT if self.transposed else x)[self.unused_rows :] for x in pieces]
        joined = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        joined = joined if self.factor == 1.0 else joined * self.factor
        if self.row_order is not None:
            joined = joined[self.row_order.argsort()]
        return joined if self.column_order is None else joined[:, self.column_order.argsort()]

    def to_hf(self, tensor: Tensor) -> list[Tensor]:
        """headway's tensor -> those of the file, in the order of `hf_names`."""
        tensor = tensor if self.factor == 1.0 else tensor / self.factor
        if self.column_order is not None:
            tensor = tensor[:, self.column_order]
        if self.row_order is not None:
            tensor = tensor[self.row_order]
        pieces = [tensor] * len(self.hf_names) if self.duplicated else list(tensor.split(self.rows))
        if self.unused_rows:
            pieces = [torch.cat([x.new_zeros(self.unused_rows, *x.shape[1:]), x]) for x in pieces]
        pieces = [to_convolution(x, self.patch) if self.patch else x for x in pieces]
        pieces = [x.mT if self.transposed else x for x in pieces]
        return [x.view((1,) * self.unit_axes + x.shape) if self.unit_axes else x for x in pieces]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationTokens:
    """The special token ids that generation uses; they belong to a model's config, whatever its tokenizer says."""

    start: int | None = None  # a decoder's first input
    stop: tuple[int, ...] = ()
    pad: int | None = None
    banned: tuple[int, ...] = ()  # never generated

    @property
    def eos_token_id(self) -> int | list[int] | None:
        """As a config.json has it: one id, a list of several, or null."""
        return list(self.stop) if len(self.stop) > 1 else next(iter(self.stop), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a config.json describes, as headway's configs."""

    model: ModelConfig
    task: Task | None  # None: an image classifier, or an encoder used for its vectors
    tokens: GenerationTokens = GenerationTokens()
    encoder: bool = False  # reads a text as a whole, between special tokens of its tokenizer
    classes: int | None = None  # of a classifier


def _same_name(name: str, model: Any) -> str:
    return name


def _same_config(model: C) -> C:
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Generic[C]):
    """How models of one `model_type` are read and written; C is the headway config, or the union of those it covers."""

    name: str
    configs: tuple[type[C], ...]
    architectures: tuple[str, ...]  # those that can be imported
    # config.json and the shapes of the tensors by name -> headway's configs. Raises BadModelError for a setting without
    # an equivalent in headway.
    read: Callable[[Mapping[str, Any], Mapping[str, Shape]], Imported]
    # A config -> config.json. Raises ConfigError naming the setting that has no equivalent in this family.
    write: Callable[[C, GenerationTokens], dict[str, Any]]
    # A mapping for every tensor of headway's model but those that are left out.
    mappings: Callable[[C], list[WeightMapping]]
    # Whether this family is the one to export a config to, among the families of its type; `write` checks the rest.
    exports: Callable[[C], bool] = field(default=lambda model: True)
    # Another spelling of a tensor's name (an older one, one without prefix) -> the one in `mappings`.
    canonical: Callable[[str, C], str] = _same_name
    # Whether a tensor of the file holds nothing that a config does not (masks, position ids, sinusoids).
    ignored: Callable[[str], bool] = field(default=lambda name: False)
    # Second copies of tied tensors by name -> the name in `mappings`; a file may hold either, or both if equal.
    copies: Callable[[C], dict[str, str]] = field(default=lambda model: {})
    # The config with every bias that this family always has: those headway's model lacks are written as zeros.
    with_all_biases: Callable[[C], C] = _same_config
    # Tensors that the file stores and headway computes from its config.
    constants: Callable[[C], dict[str, Tensor]] = field(default=lambda model: {})
    # Prefixes of headway's tensors that this family has no place for and that its outputs do not need.
    left_out: Callable[[C], tuple[str, ...]] = field(default=lambda model: ())
    # Channels, height and width of the images a model reads; None for a family of text models.
    image_shape: Callable[[C], tuple[int, int, int]] | None = None
    generates: bool = False  # writes text token by token with a KV cache

    def matches(self, config: ModelConfig) -> bool:
        """Whether a model of this config is exported as one of this family."""
        return isinstance(config, self.configs) and self.exports(config)


@dataclass(frozen=True, slots=True)
class TensorMatch:
    """The tensors of a file beside those a model needs, by name."""

    found: dict[str, str]  # the name in `mappings` -> the name in the file
    equal: list[tuple[str, str]]  # names in the file that must hold the same numbers
    missing: list[str]
    extra: list[str]


def match(family: Family[C], model: C, mappings: Iterable[WeightMapping], names: Iterable[str]) -> TensorMatch:
    """Find the tensors of `mappings` (those of `model`) among the names of a file."""
    mappings, copies = list(mappings), family.copies(model)
    wanted = {name for mapping in mappings for name in mapping.hf_names}
    found: dict[str, str] = {}
    duplicates: list[tuple[str, str]] = []
    extra = []
    for name in names:
        plain = family.canonical(name, model)
        if plain in wanted and plain not in found:
            found[plain] = name
        elif plain in copies:
            duplicates.append((copies[plain], name))
        elif not family.ignored(plain):
            extra.append(name)
    equal = [(found[plain], name) for plain, name in duplicates if found.setdefault(plain, name) != name]
    for mapping in mappings:
        for name in mapping.hf_names if mapping.duplicated else ():
            if name in found:
                found.setdefault(mapping.hf_names[0], found[name])
    missing = [name for mapping in mappings for name in mapping.required if name not in found]
    return TensorMatch(found, equal, missing, extra)


def map_weights(
    model: ModelConfig,
    names: Names,
    *,
    transposed: Callable[[str], bool] = lambda name: False,
    left_out: tuple[str, ...] = (),
) -> list[WeightMapping]:
    """A mapping for each tensor of a model. Raises KeyError for a tensor without an entry in the table of names."""
    mappings, built = [], build_model(model, device="meta")
    for name, tensor in built.state_dict().items():
        if name.startswith(left_out):
            continue
        module, _, last = name.rpartition(".")
        layer = next(iter(re.findall(r"\.(\d+)\.", name)), "")
        entry = name.replace(f".{layer}.", ".{i}.") if layer else name
        templates = names.get(entry) or tuple(f"{each}.{last}" for each in names[entry.rpartition(".")[0]])
        hf_names = tuple(each.replace("{i}", layer) for each in templates)
        holder = built.get_submodule(module)
        rows: Shape = (tensor.shape[0],) * len(hf_names)
        if isinstance(holder, FusedLinear) and len(hf_names) > 1:
            rows = holder.parts
        is_transposed = tensor.ndim == 2 and transposed(hf_names[0])
        mappings.append(
            WeightMapping(name=name, hf_names=hf_names, shape=tuple(tensor.shape), rows=rows, transposed=is_transposed)
        )
    return mappings


def from_hf(mappings: Iterable[WeightMapping], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights, or their gradients, under the file's names -> under headway's. Raises KeyError if one is missing."""
    return {mapping.name: mapping.from_hf([tensors[name] for name in mapping.required]) for mapping in mappings}


def to_hf(mappings: Iterable[WeightMapping], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under headway's names -> under the file's."""
    return {
        name: x
        for mapping in mappings
        for name, x in zip(mapping.hf_names, mapping.to_hf(tensors[mapping.name]), strict=True)
    }


def hf_shapes(mappings: Iterable[WeightMapping]) -> dict[str, Shape]:
    """The shapes of the file's tensors by name."""
    return {name: shape for each in mappings for name, shape in zip(each.hf_names, each.hf_shapes, strict=True)}


def import_weights(family: Family[C], model: C, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model's weights from a file's tensors in memory. Raises BadModelError naming missing, extra or unequal ones."""
    mappings = family.mappings(model)
    matched = match(family, model, mappings, tensors)
    wrong = [f"{name} is missing" for name in matched.missing]
    wrong += [f"{name} has no place in the model" for name in matched.extra]
    wrong += [f"{a} and {b} are tied and differ" for a, b in matched.equal if not torch.equal(tensors[a], tensors[b])]
    if wrong:
        raise BadModelError("; ".join(wrong))
    return from_hf(mappings, {plain: tensors[name] for plain, name in matched.found.items()})


def export_weights(family: Family[C], model: C, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors of the file from a model's weights: biases the model lacks are zeros, constants are written out."""
    tensors = to_hf(family.mappings(model), weights) | family.constants(model)
    for name, shape in hf_shapes(family.mappings(family.with_all_biases(model))).items():
        if name not in tensors:
            tensors[name] = torch.zeros(shape)
    return tensors


def reordered(
    mappings: Iterable[WeightMapping], order: Tensor, axes: Callable[[str], tuple[bool, bool]]
) -> list[WeightMapping]:
    """The mappings with rows, columns or both in another order; `axes` says which, for a tensor of headway's."""
    result = []
    for mapping in mappings:
        rows, columns = axes(mapping.name)
        result.append(
            replace(
                mapping,
                row_order=order if rows else mapping.row_order,
                column_order=order if columns else mapping.column_order,
            )
        )
    return result
