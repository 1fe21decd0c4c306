"""Configs as plain data and back.

A config is a tree of frozen dataclasses. `plain` writes it as dicts, lists and scalars; `parse` reads that back, typed
by the dataclasses; `override` changes values by dotted keys. Where a field allows several dataclasses, each is named in
lower case with dashes (`SinusoidalHalves` is "sinusoidal-halves"), alone or as `type` among its settings. A `Choice`
is such a union whose dataclasses are imported only when named.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from headway.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

C = TypeVar("C")
TAG = "type"


def positive(name: str, value: int, *, least: int = 1) -> None:
    """Raise ConfigError unless a size is an integer of at least `least`."""
    if not isinstance(value, int) or value < least:
        raise ConfigError(f"{name}={value!r}, allowed: whole numbers from {least}")


def probability(name: str, value: float) -> None:
    """Raise ConfigError unless a probability, such as dropout, is at least 0 and below 1."""
    if not 0.0 <= value < 1.0:
        raise ConfigError(f"{name}={value}, allowed: at least 0 and below 1")


def kind(config: type) -> str:
    """The config name of a dataclass: its class variable `name`, else the class name in lower case with dashes."""
    own = vars(config).get("name")
    settings = {field.name for field in dataclasses.fields(config)} if dataclasses.is_dataclass(config) else set()
    return own if isinstance(own, str) and "name" not in settings else _kind(config.__name__)


def _kind(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name.removesuffix("Config")).lower()


def names(config: type) -> tuple[str, ...]:
    """The config name of a dataclass, and older ones that are still accepted (its class variable `aliases`)."""
    return (kind(config), *vars(config).get("aliases", ()))


class Choice(Mapping[str, type]):
    """A registry of dataclasses by name, each imported when it is looked up; in a config, a union of them.

    `homes` maps each name to "module:Class". Installed packages add to it through the entry points of `group`, which
    are searched only for names that are not built in. A config can name only what is registered, never a module.
    """

    def __init__(
        self, homes: Mapping[str, str], *, aliases: Mapping[str, str] | None = None, group: str | None = None
    ) -> None:
        self.homes, self.aliases, self.group = dict(homes), dict(aliases or {}), group

    def __getitem__(self, name: str) -> type:
        name = self.aliases.get(name, name)
        if name in self.homes:
            module, _, wanted = self.homes[name].partition(":")
            found: type = getattr(import_module(module), wanted)
            return found
        return self._plugin(name)

    def _plugin(self, name: str) -> type:
        """The dataclass that a package registered under this name, which must be the one it is written with."""
        found: Any = loaded(self.group, name)
        if not (isinstance(found, type) and dataclasses.is_dataclass(found) and name in names(found)):
            raise ConfigError(
                f"plugin {name!r} of group {self.group}: expected a dataclass of that name, got {found!r}"
            )
        return cast(type, found)

    def __iter__(self) -> Iterator[str]:
        yield from self.homes
        yield from (name for name in plugins(self.group) if name not in self.homes)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def plugins(group: str | None) -> dict[str, EntryPoint]:
    """The entry points of a group, by name."""
    from importlib.metadata import entry_points  # takes a tenth of a second, and few commands need it

    return {} if group is None else {each.name: each for each in entry_points(group=group)}


def loaded(group: str | None, name: str) -> Any:
    """The object a plugin registered as `name`. Raises KeyError if it is unknown, ConfigError if loading fails."""
    point = plugins(group)[name]
    try:
        return point.load()
    except Exception as error:  # a plugin may raise anything while it is imported
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"plugin {name!r} ({point.value}) of group {group} cannot be loaded: {reason}") from error


def plain(value: Any) -> Any:
    """A config as dicts, lists and scalars, with `type` naming each dataclass."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {TAG: kind(type(value)), **fields}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value


def parse(wanted: type[C], value: Any) -> C:
    """Plain data -> config. Raises ConfigError naming the key, the value received and what is allowed."""
    return _read(wanted, value, "")  # type: ignore[no-any-return]


def override(config: C, changes: Mapping[str, object]) -> C:
    """The config with values at dotted keys replaced: {"position": "alibi", "recurrent.hidden": 64}."""
    tree = plain(config)
    for path, value in changes.items():
        *parents, last = path.split(".")
        branch = tree
        for depth, key in enumerate(parents):
            if isinstance(branch.get(key), str):  # a choice given by name only, which now gets settings
                branch[key] = {TAG: branch[key]}
            if not isinstance(branch.get(key), dict):
                raise ConfigError(f"no config key {path!r}: {'.'.join(parents[: depth + 1])} has no settings")
            branch = branch[key]
        branch[last] = plain(value)  # an unknown key is reported by `parse`, with the known ones
    return parse(type(config), tree)


@cache
def _hints(config: type) -> dict[str, Any]:
    return get_type_hints(config)


def _unknown(what: str, got: str, allowed: Iterable[str]) -> str:
    allowed = list(allowed)
    near = difflib.get_close_matches(got.split(".")[-1], allowed, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{what} {got!r}: {hint}allowed: {', '.join(allowed)}"


def _read(wanted: Any, value: Any, path: str) -> Any:
    if get_origin(wanted) in (Union, types.UnionType):
        options = get_args(wanted)
        options_by_name = [each for each in options if isinstance(each, type) and dataclasses.is_dataclass(each)]
        classes = {name: each for each in options_by_name for name in names(each)}
        return _read_choice(classes, [each for each in options if each not in classes.values()], value, path)
    if isinstance(wanted, Choice):
        return _read_choice(wanted, [], value, path)
    if get_origin(wanted) is tuple:
        each = get_args(wanted)[0]
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise ConfigError(f"{path}={value!r}, expected a list")
        return tuple(_read(each, part, f"{path}[{n}]") for n, part in enumerate(parts))
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise ConfigError(_unknown(f"{path}:", str(value), map(str, get_args(wanted))))
        return value
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return _read_dataclass(wanted, value, path)
    return _read_scalar(wanted, value, path)


def _read_choice(classes: Mapping[str, type], others: list[Any], value: Any, path: str) -> Any:
    """One of several types: a dataclass by name, None by "none", otherwise the first scalar type that fits."""
    if value is None or value == "none":
        if type(None) in others:
            return None
        raise ConfigError(f"{path}=none is not allowed here; allowed: {', '.join(classes)}")
    name = value.get(TAG) if isinstance(value, Mapping) else value
    if classes and isinstance(name, str | None):
        if name is None and len(classes) == 1:
            name = next(iter(classes))
        if name is None or name not in classes:
            none = ["none"] if type(None) in others else []
            raise ConfigError(_unknown(path, str(name), [*none, *classes]))
        return _read(classes[name], value if isinstance(value, Mapping) else {}, path)
    scalars = [option for option in others if option is not type(None)]
    for option in scalars:
        try:
            return _read(option, value, path)
        except ConfigError:
            if option is scalars[-1]:
                raise
    raise ConfigError(f"{path}={value!r}, allowed: {', '.join(classes)}")


def _read_dataclass(wanted: Any, value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path or kind(wanted)}={value!r}, expected settings of {kind(wanted)}")
    hints = {field.name: _hints(wanted)[field.name] for field in dataclasses.fields(wanted)}
    if value.get(TAG, kind(wanted)) not in names(wanted):
        raise ConfigError(f"{path or TAG}={value[TAG]!r}, allowed: {kind(wanted)}")
    given: dict[str, Any] = {}
    for key, part in value.items():
        if key == TAG:
            continue
        below = f"{path}.{key}" if path else key
        if key not in hints:
            raise ConfigError(_unknown("no config key", below, hints))
        given[key] = _read(hints[key], part, below)
    required = (f for f in dataclasses.fields(wanted) if f.default is f.default_factory is dataclasses.MISSING)
    for field in required:
        if field.name not in given:
            raise ConfigError(f"{path + '.' if path else ''}{field.name} is missing from {kind(wanted)}")
    return wanted(**given)


def _read_scalar(wanted: Any, value: Any, path: str) -> Any:
    if wanted is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, str) and wanted in (int, float):
        try:
            return wanted(value)
        except ValueError:
            pass
    elif wanted is float and type(value) in (int, float):
        return float(value)
    elif type(value) is wanted:
        return value
    raise ConfigError(f"{path}={value!r}, expected {wanted.__name__}")
