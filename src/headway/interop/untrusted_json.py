"""Read JSON from untrusted files within limits, and quote it safely in error messages."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from headway.errors import BadModelError

MAX_SHOWN = 80  # characters of a quoted value in an error
MAX_DEPTH = 64  # levels of nesting
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def shown(value: object) -> str:
    """A value from a file, on one line, printable and short."""
    text = ascii(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def one_line(error: object) -> str:
    """A message that may quote a file, on one line, printable and short."""
    text = " ".join(str(error).split())
    return "".join(char if char.isprintable() else "?" for char in text)[:400]


def parse_json(data: bytes, origin: str) -> Any:
    """Parse JSON. Raises BadModelError naming the file, also for duplicate keys, NaN, infinity and lone surrogates."""

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            duplicate = next(name for name in found if names.count(name) > 1)
            raise BadModelError(f"{origin}: duplicate key {shown(duplicate)}")
        return found

    def not_a_number(text: str) -> NoReturn:
        raise BadModelError(f"{origin}: {text} is not a JSON number")

    if _depth(data) > MAX_DEPTH:
        raise BadModelError(f"{origin}: nested more than {MAX_DEPTH} levels deep")
    try:
        found = json.loads(data, object_pairs_hook=unique_keys, parse_constant=not_a_number)
        if b"\\u" in data:
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadModelError(f"{origin}: lone surrogate in a string") from None
    except UnicodeDecodeError as error:
        raise BadModelError(f"{origin}: invalid UTF-8 at byte {error.start + 1}") from None
    except ValueError as error:
        raise BadModelError(f"{origin}: not JSON ({one_line(error)})") from None
    return found


def _depth(data: bytes) -> int:
    """How deep brackets nest outside strings; counting stops beyond the limit."""
    depth = deepest = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NO_BRACKET):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest
