"""Tables for `headway runs` and `headway cache`: lists, a comparison, and what could be freed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headway.cli.console import SafeConsole
from headway.cli.render import NONE, note, section
from headway.cli.terminal import tell
from headway.cli.units import age_text, bytes_text, count_text
from headway.counts import counted, figure_name
from headway.data.cache import CacheEntry
from headway.runs.clean import KINDS, Removal
from headway.runs.compare import Comparison
from headway.runs.listing import DAMAGED, STOPPED, TRAINING, RunRow

RIGHT = ("parameters", "step", "best", "size", "age")
STYLES = {DAMAGED: "red", TRAINING: "green", STOPPED: "yellow"}
WIDE = 1000  # columns of what is not a terminal: nothing is wrapped


def wide_console() -> SafeConsole:
    """stdout; in a pipe or a file the lines of a table are as long as they need to be."""
    console = SafeConsole()
    if not console.is_terminal:
        console.width = WIDE
    return console


def show_runs(rows: Sequence[RunRow]) -> None:
    """The list of runs; what is damaged goes to stderr."""
    table = _table(("run", "task", "model", "parameters", "step", "best", "size", "age", "state"))
    for row in rows:
        steps = NONE if row.step is None else f"{row.step:,}" if row.steps is None else f"{row.step:,}/{row.steps:,}"
        table.add_row(
            Text(row.run),
            *(Text(_or_none(each)) for each in (row.task, row.model)),
            NONE if row.parameters is None else count_text(row.parameters),
            steps,
            NONE if row.best is None else _best_text(row),
            bytes_text(row.bytes),
            NONE if row.age is None else age_text(row.age),
            Text(row.state, style=STYLES.get(row.state, "")),
        )
    console = wide_console()
    console.print(table)
    if len(rows) > 1:
        console.print(Text(f"\n{counted(len(rows), 'run')}, {bytes_text(sum(row.bytes for row in rows))}", style="dim"))
    for row in rows:
        if row.problem is not None:
            tell(f"note: {row.problem}")


def _best_text(row: RunRow) -> str:
    """The loss of the best checkpoint, or the figure that it was chosen by, with its name."""
    if row.best_value is None or row.best_by in (None, "val_loss"):
        return f"{row.best:.4g}"
    return f"{figure_name(str(row.best_by))} {row.best_value:.4g}"


def show_comparison(found: Comparison, names: Sequence[str]) -> None:
    """The settings that differ and the scores, a column for each run."""
    console = wide_console()
    shown: list[RenderableType] = [note(text, "yellow") for text in found.notes]
    if found.differences:
        rows = ((key, *map(_setting, values)) for key, values in found.differences.items())
        shown.append(section("settings that differ", _columns(("", *names), rows)))
    else:
        shown.append(note("the runs have the same settings"))
    rows = ((key.replace("_", " "), *(_score(key, value) for value in values)) for key, values in found.scores.items())
    shown.append(section("scores", _columns(("", *names), rows)))
    console.print(*shown, sep="\n")


def show_removals(plan: Mapping[Path, Sequence[Removal]]) -> None:
    """What could be freed of each run, by kind."""
    table = _table(("run", "what", "size", ""))
    for run, found in plan.items():
        for kind in dict.fromkeys(each.kind for each in found):
            those = [each for each in found if each.kind == kind]
            names = ", ".join(str(each.path.relative_to(run)) for each in those[:3])
            more = f" and {len(those) - 3} more" if len(those) > 3 else ""
            size = bytes_text(sum(each.bytes for each in those))
            table.add_row(Text(str(run)), Text(KINDS[kind]), size, Text(names + more, style="dim"))
    console = wide_console()
    console.print(table if table.row_count else "nothing to free")


def show_cache(folder: Path, entries: Sequence[CacheEntry]) -> None:
    """The cache's entries, the largest first."""
    console = wide_console()
    count = counted(len(entries), "entry", "entries")
    console.print(Text(f"{folder}: {count}, {bytes_text(sum(entry.bytes for entry in entries))}"))
    table = _table(("entry", "what", "size", "age"))
    for entry in entries:
        table.add_row(Text(entry.name), Text(entry.what), bytes_text(entry.bytes), age_text(entry.age))
    if entries:
        console.print(table)


def _table(header: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in header:
        table.add_column(name, justify="right" if name in RIGHT else "left", no_wrap=name in RIGHT)
    return table


def _columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(header):
        table.add_column(Text(name), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _or_none(text: str | None) -> str:
    return NONE if text is None else text


def _setting(value: Any) -> str:
    return NONE if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _score(key: str, value: Any) -> str:
    if value is None:
        return NONE
    if key == "bytes":
        return bytes_text(value)
    if key == "best_by":
        return figure_name(value)
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
