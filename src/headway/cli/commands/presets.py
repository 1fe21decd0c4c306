"""`headway presets`."""

from __future__ import annotations

import json
from argparse import Namespace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.config import TAG, plain
from headway.presets import PRESETS, Preset, preset


def _record(entry: Preset) -> dict[str, object]:
    return {
        "name": entry.name,
        "task": entry.task,
        "parameters": entry.parameters,
        "source": entry.source,
        "departures": list(entry.departures),
    }


def run(arguments: Namespace) -> None:
    """Print all presets, or one of them in full."""
    name, as_json = arguments.name, arguments.json
    chosen = None if name is None else preset(name)
    if as_json:
        print(json.dumps(_record(chosen) if chosen else [_record(entry) for entry in PRESETS.values()], indent=2))
    elif chosen:
        _show(chosen)
    else:
        _list()


def _list() -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("preset", "task", "parameters", "source"):
        table.add_column(heading, justify="right" if heading == "parameters" else "left", no_wrap=heading != "source")
    for entry in PRESETS.values():
        table.add_row(entry.name, entry.task, f"{entry.parameters:,}", entry.source)
    Console().print(table)


def _show(entry: Preset) -> None:
    console = Console(highlight=False)
    console.print(Text(entry.name, style="bold"), f"· {entry.task} · {entry.parameters:,} parameters")
    console.print(Text(f"source: {entry.source}"))
    console.print("departures:" if entry.departures else "departures: none known")
    for departure in entry.departures:
        console.print(Text(f"  - {departure}"))
    console.print("config:")
    for line in _lines(plain(entry.config()), 1):
        console.print(Text(line))


def _lines(tree: dict[str, object], depth: int) -> list[str]:
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
