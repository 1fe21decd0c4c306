"""The labs of `headway lab`: one module each, built as the modules of headway.cli.commands are.

`HELP` is its line in the list of labs; `add_arguments` declares the options that only this lab has.
"""

from __future__ import annotations

from argparse import Namespace, _ActionsContainer
from importlib import import_module
from typing import Protocol, cast

LABS = ("sentences", "positions", "pondering", "worlds")


class Lab(Protocol):
    """A module of this package."""

    HELP: str
    OVERRIDES: bool  # whether it takes --KEY.SUB VALUE, as `headway train` does

    def add_arguments(self, parser: _ActionsContainer) -> None:
        """Declare the options of this lab alone, on a parser or a group of one."""

    def execute(self, arguments: Namespace) -> None:
        """Run the experiment and print what came out."""


def lab(name: str) -> Lab:
    """The module of a lab."""
    return cast(Lab, import_module(f"headway.cli.labs.{name}"))
