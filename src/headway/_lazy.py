"""Lazy attributes of a package (PEP 562): each is imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose lazy names are given by module in `homes`."""
    module_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, found)  # so that it is looked up once
        return found

    return find
