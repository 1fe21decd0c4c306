"""Names a package offers but imports only when they are first used: who needs one of them does not wait for all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that offers the names of `homes`, which has them by module."""
    module_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, found)  # asked once
        return found

    return find
