"""The presets by name: those of headway, and what installed packages add by entry points of `headway.presets`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headway.config import loaded, plugins
from headway.errors import ConfigError
from headway.presets.preset import Preset

GROUP = "headway.presets"


class Presets(Mapping[str, Preset]):
    """A registry of presets. Entry points are searched for a name that is not built in, and when all are listed.

    An entry point goes by the preset's own name; its object is a `Preset` or a function without arguments that returns
    one. Where a plugin has the name of a built-in preset, the built-in one is used.
    """

    def __init__(self, built_in: Iterable[Preset], group: str | None = GROUP) -> None:
        self.built_in, self.group = {preset.name: preset for preset in built_in}, group

    def __getitem__(self, name: str) -> Preset:
        """The preset of this name. Raises ConfigError for a plugin that cannot be loaded or is not a preset."""
        if name in self.built_in:
            return self.built_in[name]
        found = loaded(self.group, name)
        if not isinstance(found, Preset) and callable(found):
            found = found()
        if not isinstance(found, Preset):
            raise ConfigError(f"plugin {name!r} of group {self.group}: expected a Preset, got {type(found).__name__}")
        if found.name != name:
            raise ConfigError(f"plugin {name!r} of group {self.group}: its preset is named {found.name!r}")
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from (name for name in plugins(self.group) if name not in self.built_in)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in plugins(self.group)
