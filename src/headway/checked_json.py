"""Fields of a JSON object from an untrusted file, each checked when it is read."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from headway.counts import counted
from headway.errors import DataError, HeadwayError, shown

MAX_INTEGER = 2**31 - 1
MAX_SHOWN = 41  # characters of a bad value in a message
REQUIRED: Any = object()  # the default of a field that must be there


class JsonFields:
    """A JSON object whose fields are read by name and type; without a default, a field is required.

    A missing or malformed field raises `error` with a message that names it, `where` (a file name) in front.
    """

    def __init__(self, values: Mapping[str, Any], *, where: str = "", error: type[HeadwayError] = DataError) -> None:
        self._values, self._error = values, error
        self._prefix = f"{where}: " if where else ""
        if not isinstance(values, Mapping):
            self.fail(f"{shown(values, MAX_SHOWN)}, expected an object")
        self._read: set[str] = set()

    def present(self, name: str) -> bool:
        """Whether a field is there and not null."""
        self._read.add(name)
        return self._values.get(name) is not None

    def expect_no_others(self) -> None:
        """Raise for a field that was never read."""
        for name in self._values:
            if name not in self._read:
                self.fail(f"{shown(name, MAX_SHOWN)}: unknown field")

    def integer(self, name: str, default: int = REQUIRED, *, least: int = 0, most: int = MAX_INTEGER) -> int:
        """A whole number from `least` to `most`."""
        return self._integer(name, self.value(name, default), least, most)

    def integers(self, name: str, *, count: int | None = None, most: int = MAX_INTEGER) -> tuple[int, ...]:
        """A list of whole numbers from 0 to `most`, `count` of them where given."""
        return tuple(self._integer(f"{name}[{n}]", value, 0, most) for n, value in enumerate(self._list(name, count)))

    def number(self, name: str, default: float = REQUIRED, *, above: float = -math.inf) -> float:
        """A finite number above `above`."""
        return self._number(name, self.value(name, default), above)

    def numbers(self, name: str, *, count: int | None = None) -> tuple[float, ...]:
        """A list of finite numbers, `count` of them where given."""
        return tuple(self._number(f"{name}[{n}]", value) for n, value in enumerate(self._list(name, count)))

    def flag(self, name: str, default: bool = REQUIRED) -> bool:
        """True or false."""
        value = self.value(name, default)
        if type(value) is not bool:
            self.reject(name, value, "true or false")
        return value

    def text(self, name: str, default: str = REQUIRED) -> str:
        """A string of valid Unicode."""
        return self._text(name, self.value(name, default))

    def texts(self, name: str, *, count: int | None = None) -> tuple[str, ...]:
        """A list of strings, `count` of them where given."""
        return tuple(self._text(f"{name}[{n}]", value) for n, value in enumerate(self._list(name, count)))

    def arrays(self, name: str, dtype: str, sizes: Sequence[int]) -> list[NDArray[Any]]:
        """Base64 of numbers, split into arrays of these sizes."""
        try:
            data = base64.b64decode(self.text(name), validate=True)
        except (binascii.Error, ValueError):
            self.fail(f"{name}: not base64")
        expected = sum(sizes) * np.dtype(dtype).itemsize
        if len(data) != expected:
            self.fail(f"{name}: {len(data)} bytes, expected {expected}")
        numbers = np.frombuffer(data, dtype)
        ends = np.cumsum(sizes, dtype=np.int64)
        return [numbers[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def value(self, name: str, default: Any = REQUIRED) -> Any:
        """The field as it is, unchecked."""
        self._read.add(name)
        value = self._values.get(name, default)
        if value is REQUIRED:
            self.fail(f"{name}: missing")
        return value

    def reject(self, name: str, value: object, expected: str) -> NoReturn:
        """Raise for a field whose value is not as expected."""
        self.fail(f"{name}={shown(value, MAX_SHOWN)}, expected {expected}")

    def fail(self, message: str) -> NoReturn:
        """Raise the error of these fields."""
        raise self._error(f"{self._prefix}{message}")

    def _list(self, name: str, count: int | None) -> list[Any]:
        value = self.value(name)
        if not isinstance(value, list):
            self.reject(name, value, "a list")
        if count is not None and len(value) != count:
            self.fail(f"{name}: {counted(len(value), 'entry', 'entries')}, expected {count}")
        return value

    def _integer(self, name: str, value: Any, least: int, most: int) -> int:
        if type(value) is not int or not least <= value <= most:  # bool is a subclass of int
            self.reject(name, value, f"a whole number from {least} to {most}")
        return value

    def _number(self, name: str, value: Any, above: float = -math.inf) -> float:
        # The comparison, unlike float() or math.isfinite, also takes integers too large for a float.
        if type(value) not in (int, float) or abs(value) > 1e300 or math.isnan(value) or value <= above:
            self.reject(name, value, "a finite number" if above == -math.inf else f"a finite number above {above}")
        return float(value)

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            self.reject(name, value, "a string")
        try:
            value.encode()
        except UnicodeEncodeError:
            self.reject(name, value, "valid Unicode, got a lone surrogate")
        return value
