"""Importing the libraries to compare with."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from headway.errors import ConfigError


def peer(name: str) -> ModuleType:
    """A library by name. Raises ConfigError if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise ConfigError(f"this benchmark needs {name}: pip install 'headway[peers]'") from None
