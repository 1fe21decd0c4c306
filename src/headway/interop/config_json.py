"""Read a Hugging Face config.json field by field: used fields are checked, unsupported ones are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from headway.checked_json import REQUIRED, JsonFields
from headway.errors import BadModelError, ConfigError
from headway.nn.feedforward import Activation

FILE = "config.json"
_T = TypeVar("_T")
MAX_SIZE = 2**31  # more is a damaged file
MAX_LAYERS = 1024
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "leaky_relu": "leaky_relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
WRITTEN = {"relu": "relu", "leaky_relu": "leaky_relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}


class ConfigFields(JsonFields):
    """The fields of a config.json; each has the default that transformers gives it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config, where=FILE, error=BadModelError)
        self.config = config

    def size(self, name: str, default: int = REQUIRED, *, most: int = MAX_SIZE) -> int:
        """A whole number of at least 1."""
        return self.integer(name, default, least=1, most=most)

    def layers(self, name: str, default: int = REQUIRED) -> int:
        """A number of layers; each becomes a module, so a damaged number must be caught."""
        return self.size(name, default, most=MAX_LAYERS)

    def heads(self, name: str, default: int, width: int, among: str) -> int:
        """A number of heads that divides the width, or, of keys and values, the heads; `among` is that field's name."""
        value = self.size(name, default)
        if width % value:
            self.fail(f"{name}={value} does not divide {among}={width}")
        return value

    def probability(self, name: str, default: float) -> float:
        """A dropout rate: at least 0, below 1."""
        value = self.value(name, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            self.reject(name, value, "0 or more and below 1")
        return float(value)

    def choice(self, name: str, default: str, allowed: Mapping[str, _T]) -> _T:
        """headway's name for a value of a field."""
        value = self.value(name, default)
        if not isinstance(value, str) or value not in allowed:
            self.fail(f"{name}={value!r} has no equivalent here; there are {', '.join(allowed)}")
        return allowed[value]

    def only(self, **allowed: Any) -> None:
        """Check fields that change the computation: each must be absent, null or as given here."""
        for name, value in allowed.items():
            got = self.value(name, value)
            if got is not None and got != value:
                self.fail(f"{name}={got!r} has no equivalent here, only {value!r}")

    def id(self, name: str, default: int | None, vocab: int) -> int | None:
        """A token id within the vocabulary, or none."""
        value = self.value(name, default)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < vocab:
            self.reject(name, value, f"an id from 0 to {vocab - 1}")
        return value

    def ids(self, name: str, default: int | Sequence[int] | None, vocab: int) -> tuple[int, ...]:
        """One token id or a list of them."""
        value = self.value(name, default)
        values = list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
        for each in values:
            if type(each) is not int or not 0 <= each < vocab:
                self.reject(name, value, f"ids from 0 to {vocab - 1}")
        return tuple(values)


def expect(family: str, **parts: tuple[object, object]) -> None:
    """Raise ConfigError for the first setting (its value, the value it must have) without an equivalent in a family."""
    for name, (got, wanted) in parts.items():
        if got != wanted:
            raise ConfigError(f"{family} has no equivalent of {name}={got!r}, only of {wanted!r}")


def written_activation(family: str, activation: Activation) -> str:
    """Hugging Face's name of an activation. Raises ConfigError for one without a name there."""
    if activation not in WRITTEN:
        raise ConfigError(f"{family} has no equivalent of activation={activation!r}, only of {', '.join(WRITTEN)}")
    return WRITTEN[activation]
