"""What a stranger's file says, read within bounds: JSON without surprises, and its words fit to be shown."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from headway.errors import BadModelError

SHOWN = 80  # characters of a stranger's word in an error
DEEP = 64  # levels of nesting
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def shown(value: object) -> str:
    """A value from a file, on one line, printable and short."""
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def one_line(error: object) -> str:
    """A message that may quote a file, on one line, printable and short."""
    text = " ".join(str(error).split())
    return "".join(char if char.isprintable() else "?" for char in text)[:400]


def parse_json(data: bytes, origin: str) -> Any:
    """JSON without doubled keys, NaN, endless numbers or lone surrogates. Raises BadModelError naming the file."""

    def no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twin = next(name for name in found if names.count(name) > 1)
            raise BadModelError(f"{origin}: key {shown(twin)} twice")
        return found

    def no_number(text: str) -> NoReturn:
        raise BadModelError(f"{origin}: {text} is no number that JSON knows")

    if _depth(data) > DEEP:
        raise BadModelError(f"{origin}: nested more than {DEEP} levels deep")
    try:
        found = json.loads(data, object_pairs_hook=no_twins, parse_constant=no_number)
        if b"\\u" in data:
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadModelError(f"{origin}: a lone surrogate, which is not Unicode") from None
    except UnicodeDecodeError as error:
        raise BadModelError(f"{origin}: byte {error.start + 1} is no UTF-8") from None
    except ValueError as error:
        raise BadModelError(f"{origin}: not JSON ({one_line(error)})") from None
    return found


def _depth(data: bytes) -> int:
    """How deep brackets nest, strings aside; counting stops beyond what is allowed."""
    depth = deepest = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NO_BRACKET):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > DEEP:
            break
    return deepest
