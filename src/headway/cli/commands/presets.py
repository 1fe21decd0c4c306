"""`headway presets`."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.terminal import is_terminal, tell
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.presets import Preset

HELP = "the models there are, their size, source and departures"
EXAMPLES = ("headway presets gpt2",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which preset."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this one in full")
    options.add_json(parser, "one object, or without NAME one list, on stdout")


def execute(arguments: Namespace) -> None:
    """Print all presets, or one of them in full."""
    from headway.presets import preset

    chosen = None if arguments.name is None else preset(arguments.name)
    if arguments.json:
        print(json.dumps(_record(chosen) if chosen else [_record(entry) for entry in _presets()], indent=2))
    elif chosen:
        _show(chosen)
    else:
        _list()


def _presets() -> Iterator[Preset]:
    """All presets; a plugin that cannot be loaded is left out, with a note on stderr."""
    from headway.presets import PRESETS

    for name in PRESETS:
        try:
            found = PRESETS[name]
        except ConfigError as error:
            tell(f"note: {error}")
        else:
            yield found


def _record(entry: Preset) -> dict[str, object]:
    return {
        "name": entry.name,
        "task": entry.task,
        "parameters": entry.parameters,
        "source": entry.source,
        "departures": list(entry.departures),
    }


def _list() -> None:
    """A line for each preset: in a pipe with task and whole source, at a terminal by task and cut to its width."""
    presets = list(_presets())
    names = max(len(entry.name) for entry in presets)
    sizes = max(len(f"{entry.parameters:,}") for entry in presets)
    tasks = max(len(entry.task) for entry in presets)
    if not is_terminal(sys.stdout):
        for entry in presets:
            print(f"{entry.name:{names}}  {entry.task:{tasks}}  {entry.parameters:>{sizes},}  {entry.source}")
        return
    width = shutil.get_terminal_size().columns
    for task in dict.fromkeys(entry.task for entry in presets):
        print(f"{task}:")
        for entry in presets:
            if entry.task == task:
                line = f"  {entry.name:{names}}  {entry.parameters:>{sizes},}  {entry.source}"
                print(line if len(line) <= width else f"{line[: width - 1]}…")
    print("\nheadway presets NAME shows one in full, headway train NAME --data SPEC trains it")


def _show(entry: Preset) -> None:
    from rich.text import Text

    from headway.cli.console import SafeConsole
    from headway.config import plain

    console = SafeConsole()
    console.print(Text(entry.name, style="bold"), f"· {entry.task} · {entry.parameters:,} parameters")
    console.print(Text(f"source: {entry.source}"))
    console.print("departures:" if entry.departures else "departures: none known")
    for departure in entry.departures:
        console.print(Text(f"  - {departure}"))
    console.print("config:")
    for line in _lines(plain(entry.config()), 1):
        console.print(Text(line))


def _lines(tree: dict[str, object], depth: int) -> list[str]:
    from headway.config import TAG

    lines: list[str] = []
    for key, value in tree.items():
        if isinstance(value, dict):
            settings = {name: part for name, part in value.items() if name != TAG}
            lines.append(f"{'  ' * depth}{key}: {value[TAG]}")
            lines += _lines(settings, depth + 1)
        else:
            shown = json.dumps(value) if isinstance(value, bool) else "none" if value is None else value
            lines.append(f"{'  ' * depth}{key}: {shown}")
    return lines
