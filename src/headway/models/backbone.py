"""The backbone of a model: the part that another model can begin with when it is fine-tuned.

A model is its own backbone, unless its config says otherwise. One that stands around another model, as a classifier
around an encoder, holds that model's config in a field and the model itself in an attribute of the same name; this is
all it has to do. What else a config may say for itself:

- `backbone` (property): a `Backbone`, where the inner config is computed or some weights belong to its own outputs;
- `with_backbone(config)`: itself around another backbone, where more than the field changes; raises ConfigError;
- `fit_weights(weights, before)`: the weights of a backbone of config `before` for one of this config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from headway.config import kind
from headway.errors import ConfigError
from headway.models.registry import MODELS

if TYPE_CHECKING:
    from torch import Tensor

    from headway.models.registry import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """A part of a model: its config, and which weights of the model are its own."""

    config: ModelConfig
    prefix: str = ""  # of the names of its weights: "encoder."
    heads: tuple[str, ...] = ()  # what names below the prefix begin with that belong to the outputs: "head."

    def has(self, name: str) -> bool:
        """Whether a weight of the model, by name, belongs to the backbone."""
        return name.startswith(self.prefix) and not name.removeprefix(self.prefix).startswith(self.heads)


def backbone_of(config: ModelConfig) -> Backbone:
    """The part of a model that others can begin with."""
    declared: Backbone | None = getattr(config, "backbone", None)
    if declared is not None:
        return declared
    inside = _field(type(config))
    if inside is None:
        return Backbone(config=config)
    return replace(backbone_of(getattr(config, inside)), prefix=f"{inside}.")


def begin_with(config: ModelConfig, source: ModelConfig, origin: str) -> ModelConfig:
    """A model like `config` that can begin with the weights of a model `source`, of `origin`.

    A model of the same kind is taken as it is; of another one, the backbone. Raises ConfigError with what would fit.
    """
    if type(source) is type(config):
        return source
    found, accepted = backbone_of(source).config, _accepted(config)
    if type(found) not in accepted:
        own, wanted = kind(type(source)), " or ".join(kind(each) for each in accepted)
        inside = "" if found is source else f" around a {kind(type(found))}"
        raise ConfigError(
            f"--init {origin} has a model {own}{inside}, which a model {kind(type(config))} cannot begin with; "
            f"allowed: a run with a {wanted}, alone or inside another model"
        )
    fitted: Callable[[ModelConfig], ModelConfig] | None = getattr(config, "with_backbone", None)
    if fitted is not None:
        return fitted(found)
    inside_field = _field(type(config))
    made: Any = config
    return found if inside_field is None else replace(made, **{inside_field: found})


def fit_weights(weights: Mapping[str, Tensor], before: ModelConfig, after: ModelConfig) -> Mapping[str, Tensor]:
    """The weights of a backbone for one of another config, as that says; else the same."""
    fit: Callable[[Mapping[str, Tensor], ModelConfig], dict[str, Tensor]] | None = getattr(after, "fit_weights", None)
    return weights if fit is None else fit(weights, before)


def _accepted(config: ModelConfig) -> tuple[type, ...]:
    """The configs of backbones that a model can have."""
    if getattr(config, "backbone", None) is not None:
        return (type(backbone_of(config).config),)
    inside = _field(type(config))
    return (type(config),) if inside is None else _models(get_type_hints(type(config))[inside])


@cache
def _field(config: type) -> str | None:
    """The one field of a model's config that holds the config of another model; None without such a field."""
    hints = get_type_hints(config)
    found = [field.name for field in fields(config) if _models(hints[field.name])]
    return found[0] if len(found) == 1 else None


def _models(hint: Any) -> tuple[type, ...]:
    """The configs of registered models among those that a field may hold."""
    options = [each for each in (get_args(hint) or (hint,)) if isinstance(each, type) and is_dataclass(each)]
    return tuple(each for each in options if MODELS.get(kind(each)) is each)
