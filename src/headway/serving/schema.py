"""Values beside the JSON Schema that describes them: as much of it as inputs and options of calls use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.documents import parse_json
from headway.errors import DataError, shown
from headway.serving.api_errors import invalid

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def expect_schema(value: Any, schema: Mapping[str, Any], name: str) -> Any:
    """The value. Raises ApiError naming the field for one that the schema does not allow."""
    if not conforms(value, schema):
        raise invalid(f"{name} is {shown(value)}, expected {described(schema)}", name)
    return value


def conforms(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value is one that the schema allows."""
    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    return _within(value, kind, schema)


def _within(value: Any, kind: str, schema: Mapping[str, Any]) -> bool:
    """Whether a value of the right type is within the bounds of its schema."""
    if kind in ("integer", "number"):
        return bool(schema["minimum"] <= value <= schema["maximum"])
    if kind == "string":
        return len(value) <= int(schema.get("maxLength", len(value)))
    if kind == "array":
        return len(value) <= int(schema.get("maxItems", len(value))) and all(
            conforms(v, schema["items"]) for v in value
        )
    if kind == "object":
        known = schema["properties"]
        return all(key in known and conforms(each, known[key]) for key, each in value.items())
    return True


def described(schema: Mapping[str, Any]) -> str:
    """What a schema allows, in words."""
    kind = schema["type"]
    if kind in ("integer", "number"):
        return f"{'an' if kind == 'integer' else 'a'} {kind} from {schema['minimum']:g} to {schema['maximum']:g}"
    if kind == "string":
        return f"a string of up to {schema['maxLength']} characters" if "maxLength" in schema else "a string"
    if kind == "array":
        return f"an array of up to {schema['maxItems']}, each {described(schema['items'])}"
    if kind == "object":
        return f"an object with {', '.join(schema['properties'])}"
    return "true or false"


def from_form(text: Any, schema: Mapping[str, Any]) -> Any:
    """The value of a field of a form, which has all as text."""
    if schema["type"] == "string" or not isinstance(text, str):
        return text
    if schema["type"] == "array":
        return [text]
    try:
        return parse_json(text, "")
    except DataError:
        return text
