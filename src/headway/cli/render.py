"""Reports for people: tables and samples that read as well in a pipe as in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headway.tasks.report import MARK, NONE, Facts, Figures, Note, Sample, Samples, Section

__all__ = ["NONE", "facts", "figures", "note", "rendered", "section"]


def rendered(parts: Sequence[Section]) -> list[RenderableType]:
    """The sections of a report, in their order."""
    shown: list[RenderableType] = []
    for part in parts:
        if isinstance(part, Facts):
            body = facts(part.rows)
            shown += [section(part.title, body)] if part.title else [Text(), body]
        elif isinstance(part, Figures):
            shown += _figures(part)
        elif isinstance(part, Samples):
            shown.append(section(part.title, _samples(part.blocks)))
        else:
            shown.append(_note(part))
    return shown


def facts(rows: Mapping[str, str]) -> RenderableType:
    """Names and values side by side; no value is read as markup."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name), Text(value))
    return table


def section(title: str, body: RenderableType) -> RenderableType:
    """A part of the report under its name."""
    return Group(Text(), Text(title, style="bold"), Padding(body, (0, 0, 0, 2), expand=False))


def note(text: str, style: str = "") -> RenderableType:
    """A line below or between the tables."""
    return Text(f"\n{text}", style=style)


def figures(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Columns of numbers, flush right; the first names the row."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _figures(part: Figures) -> list[RenderableType]:
    body: RenderableType = figures(part.header, part.rows)
    if part.footnote:
        body = Group(body, Text(part.footnote, style="dim"))
    return [section(part.title, body)] if part.title else [Text(), body]


def _note(part: Note) -> RenderableType:
    return note(part.text, "yellow" if part.warning else "dim" if part.dim else "")


def _samples(blocks: Iterable[Sequence[Sample]]) -> Table:
    """Named lines in blocks, a blank line between them."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for number, lines in enumerate(blocks):
        if number:
            table.add_row()
        for line in lines:
            rest = [] if line.differs is None else [(f"{MARK}{line.differs}", "bold")]
            table.add_row(Text(line.name), Text.assemble(line.text, *rest))
    return table
