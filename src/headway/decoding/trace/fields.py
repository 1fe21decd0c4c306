"""Fields of a JSON object, each of the type it should have or a DataError that names it."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from headway.decoding.beam import Penalty
from headway.errors import DataError

MOST = 2**31 - 1


class Fields:
    """An object whose fields are taken out one by one, so that none is left over unknown."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def there(self, name: str) -> bool:
        """Whether a field is not null; a null one is taken."""
        if name in self._fields and self._fields[name] is None:
            del self._fields[name]
            return False
        return name in self._fields

    def expect_nothing_else(self) -> None:
        """Raise DataError for a field nobody asked for."""
        for name in self._fields:
            raise DataError(f"{_short(name)}: unknown field")

    def whole(self, name: str, *, least: int = 0, most: int = MOST) -> int:
        """A whole number."""
        return _whole(name, self._take(name), least, most)

    def wholes(self, name: str, *, count: int | None = None, most: int = MOST) -> tuple[int, ...]:
        """A list of whole numbers."""
        return tuple(_whole(f"{name}[{n}]", value, 0, most) for n, value in enumerate(self._list(name, count)))

    def number(self, name: str) -> float:
        """A finite number."""
        return _number(name, self._take(name))

    def numbers(self, name: str, *, count: int | None = None) -> tuple[float, ...]:
        """A list of finite numbers."""
        return tuple(_number(f"{name}[{n}]", value) for n, value in enumerate(self._list(name, count)))

    def text(self, name: str) -> str:
        """A text."""
        return _text(name, self._take(name))

    def texts(self, name: str, *, count: int | None = None) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(_text(f"{name}[{n}]", value) for n, value in enumerate(self._list(name, count)))

    def penalty(self, name: str) -> Penalty:
        """The name of a length penalty."""
        value = self.text(name)
        if value not in get_args(Penalty):
            raise DataError(f"{name}: {_short(value)}, allowed: {', '.join(get_args(Penalty))}")
        return cast(Penalty, value)

    def arrays(self, name: str, dtype: str, sizes: Sequence[int]) -> list[NDArray[Any]]:
        """Base64 of numbers, cut into arrays of these sizes."""
        try:
            data = base64.b64decode(self.text(name), validate=True)
        except (binascii.Error, ValueError):
            raise DataError(f"{name}: not base64") from None
        expected = sum(sizes) * np.dtype(dtype).itemsize
        if len(data) != expected:
            raise DataError(f"{name}: {len(data)} bytes, expected {expected}")
        numbers = np.frombuffer(data, dtype)
        ends = np.cumsum(sizes, dtype=np.int64)
        return [numbers[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def _take(self, name: str) -> Any:
        if name not in self._fields:
            raise DataError(f"{name}: missing")
        return self._fields.pop(name)

    def _list(self, name: str, count: int | None) -> list[Any]:
        value = self._take(name)
        if not isinstance(value, list):
            raise DataError(f"{name}: {_short(value)}, expected a list")
        if count is not None and len(value) != count:
            raise DataError(f"{name}: {len(value)} entries, expected {count}")
        return value


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:  # a bool is an int, but not here
        raise DataError(f"{name}: {_short(value)}, expected a whole number from {least} to {most}")
    return value


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float) or abs(value) > 1e300 or math.isnan(value):
        raise DataError(f"{name}: {_short(value)}, expected a finite number")
    return float(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise DataError(f"{name}: {_short(value)}, expected a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{name}: a lone surrogate, expected Unicode") from None
    return value


def _short(value: Any) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"
