"""Calls of a pipeline with values that JSON has: what a server answers as `/v1/NAME`, without code of its own there.

A capability, or a pipeline itself, offers a call by a method `call_NAME` with the decorator `json_call`. The method
takes the inputs and returns a list of values that JSON has; its first line says what it is. Inputs and options are
described by JSON Schema, by which a server checks them and describes them to clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Schema = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., list[Any]])

PREFIX = "call_"
TEXT: Schema = {"type": "string"}
FILE: Schema = {"type": "string", "contentEncoding": "base64"}  # the method gets the name of a file that holds it
QUESTION: Schema = {
    "type": "object",
    "properties": {
        "context": TEXT,
        "question": TEXT,
        "choices": {"type": "array", "items": TEXT, "maxItems": 64},
    },
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCall:
    """A call as it is described to others."""

    name: str
    about: str
    item: Schema  # of one input
    options: Mapping[str, Schema]
    searches: bool  # whether it searches with the model of its pipeline, so that several can step together

    def to_json(self) -> dict[str, Any]:
        """For another process."""
        return {"about": self.about, "item": dict(self.item), "options": dict(self.options)}


@dataclass(frozen=True, slots=True)
class _Declared:
    item: Schema | Callable[[Any], Schema]
    options: Mapping[str, Schema]
    searches: bool


def integer(least: int, most: int, about: str) -> Schema:
    """An option that is an integer between two bounds."""
    return {"type": "integer", "minimum": least, "maximum": most, "description": about}


def number(least: float, most: float, about: str) -> Schema:
    """An option that is a number between two bounds."""
    return {"type": "number", "minimum": least, "maximum": most, "description": about}


def text(about: str) -> Schema:
    """An option that is a short text."""
    return {"type": "string", "maxLength": 1000, "description": about}


def texts(about: str) -> Schema:
    """An option that is a list of short texts."""
    return {"type": "array", "items": {"type": "string", "maxLength": 1000}, "maxItems": 64, "description": about}


def json_call(item: Schema | Callable[[Any], Schema], *, searches: bool = False, **options: Schema) -> Callable[[F], F]:
    """Declare a method `call_NAME(inputs, **options)` as a call; `item` describes an input, or tells of a pipeline."""

    def declared(method: F) -> F:
        method.json_call = _Declared(item, options, searches)  # type: ignore[attr-defined]
        return method

    return declared


def calls_of(pipeline: object) -> dict[str, JsonCall]:
    """The calls that a pipeline offers, by name."""
    found = {}
    for name in dir(type(pipeline)):
        method = getattr(type(pipeline), name) if name.startswith(PREFIX) else None
        declared: _Declared | None = getattr(method, "json_call", None)
        if declared is not None:
            item = declared.item(pipeline) if callable(declared.item) else declared.item
            about = (method.__doc__ or "").strip().partition("\n")[0]
            found[name.removeprefix(PREFIX)] = JsonCall(
                name=name.removeprefix(PREFIX),
                about=about,
                item=item,
                options=declared.options,
                searches=declared.searches,
            )
    return found


def call(pipeline: object, name: str, inputs: list[Any], options: Mapping[str, Any]) -> list[Any]:
    """The result of a call that `calls_of` has, with the options that it has."""
    found: list[Any] = getattr(pipeline, PREFIX + name)(inputs, **options)
    return found
