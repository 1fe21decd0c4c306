"""Reading the fields of a request: each is checked, and one that is not supported is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.errors import shown
from headway.serving.api_errors import ApiError, invalid
from headway.serving.multipart import FormValues


class Fields:
    """The JSON object of a request. A field is taken once; `refuse_rest` then knows which were not."""

    def __init__(self, values: Any) -> None:
        if not isinstance(values, Mapping):
            raise invalid("the body is not a JSON object", code="invalid_json")
        self.from_form = isinstance(values, FormValues)  # all values are text, or files
        self._values = dict(values)

    def take(self, name: str, default: Any = None) -> Any:
        """A field of any type; null counts as not given."""
        value = self._values.pop(name, None)
        return default if value is None else value

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number between two bounds."""
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise invalid(f"{name} is {shown(value)}, expected a number from {least:g} to {most:g}", name)
        return float(value)

    def integer(self, name: str, default: int | None, least: int, most: int) -> int:
        """An integer between two bounds; required without a default."""
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise invalid(f"{name} is {shown(value)}, expected an integer from {least} to {most}", name)
        return value

    def optional_integer(self, name: str, least: int, most: int) -> int | None:
        """The same, or None where it is not given."""
        return None if self._values.get(name) is None else self.integer(name, None, least, most)

    def digits(self, name: str, least: int, most: int) -> int:
        """An integer, which a form has as text; by default the least."""
        value = self.take(name, least)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            value = int(value)
        self._values[name] = value
        return self.integer(name, least, least, most)

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise invalid(f"{name} is {shown(value)}, expected true or false", name)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string; required without a default."""
        value = self.take(name, default)
        if not isinstance(value, str):
            raise invalid(f"{name} is {shown(value)}, expected a string", name)
        return value

    def optional_text(self, name: str) -> str | None:
        """The same, or None where it is not given."""
        return None if self._values.get(name) is None else self.text(name)

    def texts(self, name: str, most: int) -> list[str]:
        """A string or several, as a list; required."""
        value = self.take(name)
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not values or not all(isinstance(each, str) for each in values):
            raise invalid(f"{name} is {shown(value)}, expected a string or an array of strings", name)
        if len(values) > most:
            raise invalid(f"{name} has {len(values)} strings, allowed: {most}", name)
        return values

    def ignore(self, *names: str) -> None:
        """Fields that change nothing here."""
        for name in names:
            self._values.pop(name, None)

    def refuse_rest(self) -> None:
        """Raise ApiError for a field that was not taken, unless it asks for nothing."""
        for name, value in self._values.items():
            if value not in (None, False, 0, "", [], {}):
                raise invalid(f"the field {shown(name)} is not supported", name[:64], "unsupported_parameter")


def stop_strings(fields: Fields, most: int, longest: int) -> tuple[str, ...]:
    """The field `stop`: a string or several."""
    given = fields.take("stop", [])
    values: Sequence[Any] = [given] if isinstance(given, str) else given
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise invalid(f"stop is {shown(given)}, expected a string or an array of strings, none of them empty", "stop")
    if len(values) > most or any(len(each) > longest for each in values):
        raise invalid(f"stop: allowed are {most} strings of {longest} characters", "stop")
    return tuple(values)


def too_long(needed: int, context: int) -> ApiError:
    """The error of a prompt that the model cannot read and continue."""
    message = f"the prompt and max_tokens are {needed} tokens together, the context of this model is {context}"
    return invalid(message, code="context_length_exceeded")
