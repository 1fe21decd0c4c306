"""Configs as plain data and back.

A config is a tree of frozen dataclasses. `plain` writes it as dicts, lists and scalars; `parse` reads that back, typed
by the dataclasses; `override` changes values by dotted keys. Where a field allows several dataclasses, each is named in
lower case with dashes (`SinusoidalHalves` is "sinusoidal-halves"), alone or as `type` among its settings. A `Choice`
is such a union whose dataclasses are imported only when named.

Plain data may come from anyone: before a dataclass is made of it, every number is finite and within 64 bits, and every
size within the limit that `SIZES` has for its name. No message shows more than the beginning of a value.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from headway.errors import ConfigError, shown
from headway.limits import expect_within
from headway.suggestions import did_you_mean, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

C = TypeVar("C")
TAG = "type"
MAX_FLOAT = 3.4e38  # settings become tensors and kernel arguments of 32 bits
# The limit (`headway.limits`) of each setting that is a size, by the name of the setting, whatever dataclass it is in.
# Where a name means something else, the dataclass has a class variable `size_limits`: {"steps": "layers"}.
SIZES = {
    setting: limit
    for limit, settings in {
        "layers": "layers encoder_layers decoder_layers blocks",
        "width": "width widths inner hidden heads kv_heads head_dim dilated_heads classes channels keypoints actions "
        "parts levels policy clock concat neighbours segments buckets dilation bands strides",
        "context": "context length max_length window hop radius reach distance most global_tokens horizon",
        "vocabulary": "vocab source_vocab",
        "image-side": "image size patch crop",
        "beam": "beam",
        "output-tokens": "max_extra",
        "batch": "batch_tokens dreams",
    }.items()
    for setting in settings.split()
}


def positive(name: str, value: int, *, least: int = 1) -> None:
    """Raise ConfigError unless a size is an integer of at least `least`."""
    if not isinstance(value, int) or value < least:
        raise ConfigError(f"{name}={shown(value)}, allowed: whole numbers from {least}")


def expect_within_limits(config: Any, path: str = "") -> None:
    """Raise ConfigError for a size anywhere in a config that is above its limit, with the option that raises that."""
    for field in dataclasses.fields(config):
        value, below = getattr(config, field.name), f"{path}.{field.name}" if path else field.name
        _expect_size(type(config), field.name, value, below)
        for part in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(part) and not isinstance(part, type):
                expect_within_limits(part, below)


def _expect_size(config: type, name: str, value: Any, path: str) -> None:
    limit = getattr(config, "size_limits", SIZES).get(name, SIZES.get(name))
    if limit is None:
        return
    if isinstance(value, tuple) and limit == "width":  # of each layer
        expect_within("layers", len(value), f"{path}: a list")
    for part in value if isinstance(value, tuple) else (value,):
        if type(part) is int:
            positive(path, part, least=0)
            expect_within(limit, part, path)


def not_negative(name: str, *values: float) -> None:
    """Raise ConfigError unless numbers, such as weights of a loss, are at least 0."""
    for value in values:
        if not value >= 0.0:
            raise ConfigError(f"{name}={value}, allowed: 0 and above")


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
                f"plugin {name!r} of group {self.group}: expected a dataclass of that name, got {shown(found)}"
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


class UnknownKeyError(ConfigError):
    """A config has no such key: its dotted path, and the keys there are in that place."""

    def __init__(self, path: str, allowed: Collection[str]) -> None:
        super().__init__(_unknown("no config key", path, allowed))
        self.allowed = tuple(allowed)
        self.path, self.has_hint = path, bool(nearest(path.rpartition(".")[2], allowed))


def override(config: C, changes: Mapping[str, object]) -> C:
    """The config with values at dotted keys replaced: {"position": "alibi", "recurrent.hidden": 64}.

    Raises ConfigError; for a key that stands elsewhere in the config (`steps`) with its place (`train.steps`).
    """
    tree = plain(config)
    for path, value in changes.items():
        *parents, last = path.split(".")
        branch = tree
        for depth, key in enumerate(parents):
            if isinstance(branch.get(key), str):  # a choice given by name only, which now gets settings
                branch[key] = {TAG: branch[key]}
            if not isinstance(branch.get(key), dict):
                parent = shown(".".join(parents[: depth + 1]))[1:-1]
                raise ConfigError(f"no config key {shown(path)}: {parent} has no settings")
            branch = branch[key]
        branch[last] = plain(value)  # an unknown key is reported by `parse`, with the known ones
    try:
        return parse(type(config), tree)
    except UnknownKeyError as error:
        elsewhere = _elsewhere(plain(config), error.path)
        if error.has_hint or not elsewhere:
            raise
        there = f" allowed: {', '.join(error.allowed)}" if "." in error.path else ""
        raise ConfigError(f"no config key {shown(error.path)}: did you mean {' or '.join(elsewhere)}?{there}") from None


def _elsewhere(tree: Mapping[str, Any], path: str) -> list[str]:
    """Keys anywhere in a config whose last part may be what the last part of a path meant."""
    places: dict[str, list[str]] = {}

    def visit(branch: Mapping[str, Any], above: str) -> None:
        for key, value in branch.items():
            if key != TAG:
                places.setdefault(key, []).append(f"{above}{key}")
                if isinstance(value, Mapping):
                    visit(value, f"{above}{key}.")

    visit(tree, "")
    return [place for name in nearest(path.rpartition(".")[2], places) for place in places[name]][:3]


@cache
def _hints(config: type) -> dict[str, Any]:
    return get_type_hints(config)


def _unknown(what: str, got: object, allowed: Iterable[str]) -> str:
    allowed, text = list(allowed), got if isinstance(got, str) else shown(got)
    hint = did_you_mean(text.rpartition(".")[2], allowed)
    return f"{what} {shown(text)}: {hint}allowed: {', '.join(allowed)}"


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
            raise ConfigError(f"{path}={shown(value)}, expected a list")
        expect_within("list", len(parts), f"{path}: a list")
        return tuple(_read(each, part, f"{path}[{n}]") for n, part in enumerate(parts))
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            raise ConfigError(_unknown(f"{path}:", value, map(str, get_args(wanted))))
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
    raise ConfigError(f"{path}={shown(value)}, allowed: {', '.join(classes)}")


def _read_dataclass(wanted: Any, value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path or kind(wanted)}={shown(value)}, expected settings of {kind(wanted)}")
    hints = {field.name: _hints(wanted)[field.name] for field in dataclasses.fields(wanted)}
    if value.get(TAG, kind(wanted)) not in names(wanted):
        raise ConfigError(f"{path or TAG}={shown(value[TAG])}, allowed: {kind(wanted)}")
    given: dict[str, Any] = {}
    for key, part in value.items():
        if key == TAG:
            continue
        if key not in hints:
            name = key if isinstance(key, str) else shown(key)
            raise UnknownKeyError(f"{path}.{name}" if path else name, hints)
        below = f"{path}.{key}" if path else key
        given[key] = _read(hints[key], part, below)
        _expect_size(wanted, key, given[key], below)
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
            return _within_64_bits(wanted(value), value, path)
        except ValueError:
            pass
    elif wanted is float and type(value) in (int, float):
        return float(_within_64_bits(value, value, path))
    elif type(value) is wanted:
        if wanted is str:
            expect_within("setting-length", len(value), path)
        return _within_64_bits(value, value, path) if wanted in (int, float) else value
    raise ConfigError(f"{path}={shown(value)}, expected {wanted.__name__}")


def _within_64_bits(number: float, value: Any, path: str) -> float:
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise ConfigError(f"{path}={shown(value, 40)}, allowed: whole numbers of 64 bits")
    if not abs(number) <= MAX_FLOAT:  # nan is not, either
        raise ConfigError(f"{path}={shown(value, 40)}, allowed: finite numbers of 32 bits")
    return number


def flat(tree: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """The leaves of a nested mapping, such as `plain` gives, by dotted key."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return leaves
