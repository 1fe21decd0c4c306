"""The peers, where they are installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from headway.errors import ConfigError


def peer(name: str) -> ModuleType:
    """A peer's package. Raises ConfigError where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise ConfigError(f"this comparison needs {name}: pip install 'headway[peers]'") from None
