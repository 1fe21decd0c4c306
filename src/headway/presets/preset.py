"""What a preset is: a named model with its source, its exact size and where it departs from the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.models import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named, complete model config. Tests build each one and hold it to its parameter count."""

    name: str
    task: str
    source: str
    parameters: int
    departures: tuple[str, ...]  # every place where model or recipe differ from the source
    config: Callable[[], ModelConfig]
