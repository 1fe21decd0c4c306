"""Read JSON and YAML within limits: the one way in which headway opens a file of settings or facts.

The file may come from anyone. Refused, with one line that names the file and the problem: more bytes or deeper nesting
than the limits (`headway.limits`), anything that is not a regular file, invalid UTF-8, lone surrogates, keys given
twice, integers beyond 64 bits, NaN and infinity, and of YAML what headway never writes: anchors, aliases, merge keys,
tags, keys that are not text.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from headway.errors import DataError, HeadwayError, one_line, shown
from headway.limits import expect_within, limit

MAX_NUMBER = 400  # characters of a number; the largest of 64 bits, written out, has 309
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_ZEROS = bytes.maketrans(b"0123456789", b"0" * 10)
_LARGE = (b"0" * 19, b"e000", b"E000", b"e+000", b"E+000")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _RefusedError(ValueError):
    """What is wrong with a document, without its name."""


def read_json(
    path: Path,
    *,
    most: str = "config-bytes",
    error: type[HeadwayError] = DataError,
    nonfinite: bool = False,
    large_integers: bool = False,
) -> Any:
    """The content of a JSON file of at most `most` bytes (the name of a limit). Raises `error`, as `parse_json`."""
    return parse_json(
        read_within(path, most, error), str(path), error=error, nonfinite=nonfinite, large_integers=large_integers
    )


def read_yaml(path: Path, *, most: str = "config-bytes", error: type[HeadwayError] = DataError) -> Any:
    """The content of a YAML file of at most `most` bytes (the name of a limit). Raises `error`, as `parse_yaml`."""
    return parse_yaml(read_within(path, most, error), str(path), error=error)


def read_within(path: Path, most: str, error: type[HeadwayError] = DataError) -> bytes:
    """The bytes of a regular file, no more of them than a limit allows. Raises `error`.

    The cause of the error is the OSError, if there was one. A pipe or a device is never waited for.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise error(f"{path}: not a regular file")
            expect_within(most, status.st_size, str(path), error)
            found = file.read(limit(most) + 1)
    except FileNotFoundError as failure:
        raise error(f"{path}: no such file") from failure
    except (OSError, ValueError) as failure:  # ValueError: a path with a NUL
        raise error(f"{path}: cannot be read ({one_line(getattr(failure, 'strerror', None) or failure)})") from failure
    expect_within(most, len(found), str(path), error)  # it may have grown
    return found


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also for a pipe or a device, which is never waited for."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  # the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file")
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def parse_json(
    data: bytes | str,
    where: str,
    *,
    error: type[HeadwayError] = DataError,
    nonfinite: bool = False,
    large_integers: bool = False,
    surrogates: bool = False,
) -> Any:
    """The value of a JSON text; `where` names it in errors, if given. Raises `error`.

    `nonfinite` allows NaN and infinity, `large_integers` those beyond 64 bits, of up to 400 digits, `surrogates` lone
    ones in strings.
    """
    try:
        data, text = _decoded(data, "surrogatepass" if surrogates else "strict")
        found = _DECODERS[nonfinite].decode(text)
        if data.count(b"[") + data.count(b"{") > limit("depth") and _deeper(_bare(data), limit("depth")):
            raise _too_deep()
        if _has_large(data) and _has_large(_bare(data)):  # rare, and a call for each number takes thrice the time
            found = _checking_numbers(nonfinite, large_integers).decode(text)
        if not surrogates and _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except RecursionError:
        raise error(f"{_prefix(where)}{_too_deep()}") from None
    except UnicodeEncodeError:
        raise error(f"{_prefix(where)}lone surrogate in a string") from None
    except _RefusedError as failure:
        raise error(f"{_prefix(where)}{failure}") from None
    except json.JSONDecodeError as failure:
        raise error(f"{_prefix(where)}not JSON ({one_line(failure)})") from None
    except ValueError:  # of Python's int
        raise error(f"{_prefix(where)}an integer of more than 4,300 digits, allowed: 64 bits") from None


def parse_yaml(data: bytes | str, where: str, *, error: type[HeadwayError] = DataError) -> Any:
    """The value of a YAML text (None if it is empty); `where` names it in errors. Raises `error`.

    Dates are left as text. NaN and infinity are read: whether a setting may have them, its type decides.
    """
    import yaml

    loader = None
    try:
        # The loader only splits the text into events; made from these, a tree takes no recursion and one pass.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(_decoded(data)[1])
        return _tree(loader)
    except _RefusedError as failure:
        raise error(f"{_prefix(where)}{failure}") from None
    except (yaml.YAMLError, ValueError) as failure:
        mark = getattr(failure, "problem_mark", None)
        line = "" if mark is None else f"line {mark.line + 1}: "
        what = getattr(failure, "problem", None) or getattr(failure, "reason", None) or failure
        raise error(f"{_prefix(where)}{line}not YAML ({one_line(what)})") from None
    finally:
        if loader is not None:
            loader.dispose()


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""


def _decoded(data: bytes | str, errors: str = "strict") -> tuple[bytes, str]:
    """A text as bytes and as a string. Raises UnicodeEncodeError for a string with a lone surrogate."""
    if isinstance(data, str):
        return data.encode(errors=errors), data
    try:
        return data, data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        raise _RefusedError(f"invalid UTF-8 at byte {failure.start + 1}") from None


def _too_deep() -> _RefusedError:
    return _RefusedError(f"nested more than {limit('depth')} levels deep (--limit depth=N raises it)")


def _bare(data: bytes) -> bytes:
    """Valid JSON without its strings; for other bytes this could take quadratic time."""
    return _STRING.sub(b"", data)


def _has_large(data: bytes) -> bool:
    """Whether there may be a number beyond 64 bits, which has 19 digits or an exponent of three."""
    zeros = data.translate(_ZEROS)
    return any(each in zeros for each in _LARGE)


def _deeper(data: bytes, most: int) -> bool:
    """Whether JSON without strings nests deeper than `most`: each pass takes away the innermost pairs of brackets."""
    brackets = data.translate(None, _NO_BRACKET)
    for _ in range(most):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _RefusedError(f"duplicate key {shown(twice)}")
    return found


def _no_constant(text: str) -> NoReturn:
    raise _RefusedError(f"{text} is not a JSON number")


_DECODERS = {
    False: json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_no_constant),
    True: json.JSONDecoder(object_pairs_hook=_unique_keys),
}


def _checking_numbers(nonfinite: bool, large_integers: bool) -> json.JSONDecoder:
    def integer(text: str) -> int:
        return _within_64_bits(text, int, large_integers)

    def number(text: str) -> float:
        found = float(text)
        if math.isinf(found):
            raise _RefusedError(f"{_cut(text)} is too large a number")
        return found

    constant = None if nonfinite else _no_constant
    return json.JSONDecoder(
        object_pairs_hook=_unique_keys, parse_constant=constant, parse_int=integer, parse_float=number
    )


def _within_64_bits(text: str, read: Any, large: bool = False) -> int:
    found = read(text) if len(text) <= MAX_NUMBER else None
    if found is None or not (large or -(2**63) <= found < 2**63):
        raise _RefusedError(f"{_cut(text)} is too large an integer, allowed: 64 bits")
    return int(found)


def _cut(number: str) -> str:
    return number if len(number) <= 40 else f"{number[:39]}…"


def _tree(loader: Any) -> Any:
    """The value of the one document of a YAML stream, from its events."""
    import yaml
    from yaml.constructor import SafeConstructor
    from yaml.resolver import Resolver

    resolver, constructor = Resolver(), SafeConstructor()
    depth = limit("depth")
    document: list[Any] = []
    around: list[Any] = [document]  # the collections that are open, from the outside in
    keys: list[str | None] = [None]  # of each, the key whose value comes next
    while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
        if not isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionEndEvent):
                around.pop()
                keys.pop()
            continue
        value: Any
        if event.anchor is not None:  # an alias has one too
            _refuse(event, f"anchor or alias {shown(event.anchor, 40)}: these are not read, write the value out")
        if (tag := getattr(event, "tag", None)) is not None:
            _refuse(event, f"tag {shown(tag, 40)}: tags are not read, write the plain value")
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event, resolver, constructor)
        elif len(around) > depth:
            raise _too_deep()
        else:
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
        inner = around[-1]
        if isinstance(inner, list):
            inner.append(value)
        elif (key := keys[-1]) is not None:
            inner[key], keys[-1] = value, None
        elif not isinstance(value, str):
            _refuse(event, f"key {shown(value, 40)}, expected text, in quotes if need be")
        elif value in inner:
            _refuse(event, f"duplicate key {shown(value, 40)}")
        else:
            keys[-1] = value
        if isinstance(value, dict | list):
            around.append(value)
            keys.append(None)
    if len(document) > 1:
        raise _RefusedError(f"{len(document)} documents, expected one")
    return document[0] if document else None


def _refuse(event: Any, what: str) -> NoReturn:
    raise _RefusedError(f"line {event.start_mark.line + 1}: {what}")


def _scalar(event: Any, resolver: Any, constructor: Any) -> Any:
    """The value of a YAML scalar by the rules of YAML 1.1, which are those of PyYAML; other types are left as text."""
    import yaml

    text: str = event.value
    tag = resolver.resolve(yaml.ScalarNode, text, event.implicit).rpartition(":")[2]
    if tag == "merge":
        _refuse(event, f"merge key {shown(text)}: these are not read, write the keys out")
    if tag == "int" and text.isdecimal() and text[0] != "0":  # the most frequent form
        return _within_64_bits(text, int)
    node = yaml.ScalarNode(tag, text)
    if tag == "int":
        return _within_64_bits(text, lambda _: constructor.construct_yaml_int(node))
    if tag == "float":
        if len(text) > MAX_NUMBER:
            raise _RefusedError(f"{_cut(text)} is too long a number, allowed: {MAX_NUMBER} characters")
        found = constructor.construct_yaml_float(node)
        if math.isinf(found) and "inf" not in text.lower():
            raise _RefusedError(f"{_cut(text)} is too large a number")
        return found
    if tag == "bool":
        return constructor.construct_yaml_bool(node)
    return None if tag == "null" else text
