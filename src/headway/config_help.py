"""What config keys mean: type, value and one line of meaning, read from the dataclasses and their comments.

The meaning of a field is the comment behind it in the source of its class, or else the comment lines directly above it:

    width: int = 512  # features of a token's vector

A field that a class inherits has the meaning it is given in the class that declares it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import tokenize
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

from headway.config import Choice, kind

DIRECTIVES = re.compile(r"^(fmt|noqa|type|ruff|mypy|pragma)\b")  # comments for tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A config key: of a run's config with its value there, or of a config class with its default."""

    path: str  # "model.position.base"
    type: str  # "int", "fp32 | bf16", "rotary | alibi | none"
    value: str  # "" where it must be given
    meaning: str  # "" for a field without a comment


def keys_of(config: object, path: str = "") -> Iterator[Key]:
    """The keys of a config with their values; below a choice, those of what is chosen."""
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value, below = getattr(config, field.name), f"{path}{field.name}"
        yield _key(type(config), field.name, below, shown(value))
        if dataclasses.is_dataclass(value):
            yield from keys_of(value, f"{below}.")


def keys_of_class(config: type) -> list[Key]:
    """The keys of a config dataclass itself with their defaults."""
    return [_key(config, field.name, field.name, _default(field)) for field in dataclasses.fields(config)]


def _key(config: type, field: str, path: str, value: str) -> Key:
    return Key(path=path, type=type_name(_hints(config)[field]), value=value, meaning=meaning(config, field))


def reachable(config: type) -> list[type]:
    """Every config dataclass that can stand in a config of this class, itself first, in the order of the fields."""
    found: dict[type, None] = {}

    def visit(hint: Any) -> None:
        for each in options(hint):
            if _is_config(each) and each not in found:
                found[each] = None
                hints = get_type_hints(each)
                for field in dataclasses.fields(each):
                    visit(hints[field.name])

    visit(config)
    return list(found)


def options(hint: Any) -> tuple[Any, ...]:
    """The types a field allows: those of a union, a registry or a tuple's elements, else the type itself."""
    if isinstance(hint, Choice):
        return tuple(hint[name] for name in hint)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(option for each in get_args(hint) for option in options(each))
    if get_origin(hint) is tuple:
        elements = [each for each in get_args(hint) if each is not Ellipsis]
        return tuple(dict.fromkeys(option for each in elements for option in options(each)))
    return (hint,)


def type_name(hint: Any) -> str:
    """A type as its values are written on the command line."""
    if isinstance(hint, Choice):
        return " | ".join(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(type_name(each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        first, *rest = get_args(hint)
        several = f"{type_name(first)},…" if Ellipsis in rest else ",".join(type_name(each) for each in (first, *rest))
        return several if " | " not in type_name(first) else f"({type_name(first)}),…"
    if hint is type(None):
        return "none"
    if hint is bool:
        return "true | false"
    return kind(hint) if _is_config(hint) else str(hint.__name__)


def shown(value: object) -> str:
    """A value as it is written on the command line; a dataclass by its name."""
    if value is None or value == ():
        return "none" if value is None else '""'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(shown, value))
    if isinstance(value, str):
        return value or '""'
    return kind(type(value)) if dataclasses.is_dataclass(value) else str(value)


def _is_config(hint: Any) -> TypeGuard[type[Any]]:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return shown(field.default)
    return "" if field.default_factory is dataclasses.MISSING else shown(field.default_factory())


@cache
def _hints(config: type) -> dict[str, Any]:
    return get_type_hints(config)


def meaning(config: type, field: str) -> str:
    """The comment of a field in the first class, from the class itself to its bases, that has one; "" if none has."""
    for each in config.__mro__:
        if comment := _comments(each.__module__).get((each.__qualname__, field)):
            return comment
    return ""


@cache
def _comments(module: str) -> dict[tuple[str, str], str]:
    """The comments of a module's annotated class attributes by class and name."""
    if module == "builtins":
        return {}
    source = inspect.getsource(import_module(module))
    lines, found = source.splitlines(), {}
    comments = {
        token.start[0]: text
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and (text := _plain(token.string))
    }

    def above(line: int) -> list[str]:
        """The comment lines that end directly above a line."""
        alone = line - 1 in comments and lines[line - 2].lstrip().startswith("#")
        return [*above(line - 1), comments[line - 1]] if alone else []

    for owner in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)):
        for node in owner.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                behind = [comments[line] for line in own if line in comments]
                found[owner.name, node.target.id] = " ".join(behind or above(node.lineno))
    return found


def _plain(comment: str) -> str:
    """A comment without its sign and without directives to tools."""
    parts = (part.strip() for part in comment.split("#"))
    return "; ".join(part for part in parts if part and not DIRECTIVES.match(part))
