"""What a preset is: a named model with its source, its exact size and where it departs from the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.errors import ConfigError
from headway.models import ModelConfig
from headway.runs.config import RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named, complete model config. Tests build each one and hold it to its parameter count."""

    name: str
    task: str
    source: str
    parameters: int
    departures: tuple[str, ...]  # every place where model or recipe differ from the source
    config: Callable[[], ModelConfig]  # the model that is named
    run: Callable[[ModelConfig], RunConfig] | None = None  # how it is trained; None: not yet

    def recipe(self) -> RunConfig:
        """The complete config of a training run. Raises ConfigError for a model that has no recipe yet."""
        if self.run is None:
            raise ConfigError(f"preset {self.name!r} has no training recipe yet")
        return self.run(self.config())
