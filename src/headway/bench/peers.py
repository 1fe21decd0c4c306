"""Importing the libraries to compare with."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from headway.errors import ConfigError
from headway.extras import install_command


def peer(name: str) -> ModuleType:
    """A library by name. Raises ConfigError if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ConfigError(f"this benchmark needs {package}: {install_command([package])}") from None
