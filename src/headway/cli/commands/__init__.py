"""The commands: one module each, found by `command`.

A module has
- `HELP`, one line, and `EXAMPLES`, lines for the end of its help;
- `add_arguments(parser)`, its arguments. Options of several commands are in headway.cli.options. A default is written
  once, as `default=`; the help text shows it by `%(default)s`;
- `execute(arguments)`, which does the work;
- `NEEDS_TORCH = False` if it runs without torch, which is then not imported for it.

At its top a module imports only the standard library, headway.errors and the light modules of headway.cli (options,
lines): `headway CMD --help` must not wait for torch. `execute` and its helpers import what they need where they begin.
What fills more than a screen (tables, drawings) is a module of headway.cli beside this package, with its imports at its
top, which `execute` imports. tests/cli/test_parser.py holds this.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

COMMANDS = (  # in the order of `headway --help`
    "demo", "train", "prepare", "estimate", "runs", "info", "evaluate", "translate", "trace", "generate", "chat",
    "score", "classify", "tag", "answer", "caption", "transcribe", "pose", "detect", "play", "embed", "search",
    "import", "export", "verify", "look", "serve", "seal", "lab", "deck", "presets", "cache", "bench", "reliability",
    "completion",
)  # fmt: skip


class Command(Protocol):
    """A module of this package."""

    HELP: str
    EXAMPLES: Sequence[str]

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the command's arguments."""

    def execute(self, arguments: Namespace) -> None:
        """Do the work; `arguments.overrides` has the words the parser does not know. Raises HeadwayError."""


def command(name: str) -> Command:
    """The module of a command; `import` is a keyword, so its module is `import_`."""
    return cast(Command, import_module(f"headway.cli.commands.{'import_' if name == 'import' else name}"))
