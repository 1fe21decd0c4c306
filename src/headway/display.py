"""HTML fragments for notebooks: tables and grids, each complete in itself, without scripts."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape

CELL = 8  # pixels of a grid's cell at most
SIDE = 256  # pixels of a grid's longer side at most
INK = "#1f6feb"  # a cell of value 1; readable on light and dark pages
PAPER = "#8b949e22"  # behind the cells


def facts(rows: Mapping[str, object], title: str = "") -> str:
    """Names and values side by side."""
    lines = "".join(f"<tr>{_head(name)}{_cell(value)}</tr>" for name, value in rows.items())
    return f"{heading(title)}<table>{lines}</table>"


def figures(header: Iterable[str], rows: Iterable[Iterable[object]], title: str = "", footnote: str = "") -> str:
    """Columns under their names; the first column names the row."""
    names = "".join(map(_head, header))
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"{heading(title)}<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>{sentence(footnote)}"


def grid(cells: Sequence[Sequence[float]], label: str = "") -> str:
    """A picture of numbers from 0 (empty) to 1 (full), one row of squares for each row of numbers."""
    height, width = len(cells), max(map(len, cells), default=0)
    side = min(CELL, SIDE / max(height, width, 1))
    squares = "".join(
        f'<rect x="{x}" y="{y}" width="0.9" height="0.9" fill="{INK}" fill-opacity="{min(value, 1.0):.2f}"/>'
        for y, row in enumerate(cells)
        for x, value in enumerate(row)
        if value >= 0.005  # the others would be invisible
    )
    picture = (
        f'<svg viewBox="0 0 {width} {height}" width="{width * side:.0f}" height="{height * side:.0f}" role="img" '
        f'aria-label="{escape(label)}" style="background:{PAPER}">{squares}</svg>'
    )
    caption = f"<figcaption>{escape(label)}</figcaption>" if label else ""
    return f'<figure style="display:inline-block;margin:4px">{picture}{caption}</figure>'


def png(data: bytes, label: str) -> str:
    """A picture, inside the page."""
    return f'<img alt="{escape(label)}" src="data:image/png;base64,{base64.b64encode(data).decode()}"/>'


def heading(text: str) -> str:
    """A title above a table; nothing without a text."""
    return f"<p><b>{escape(text)}</b></p>" if text else ""


def sentence(text: str) -> str:
    """A paragraph; nothing without a text."""
    return f"<p>{escape(text)}</p>" if text else ""


def code(text: str) -> str:
    """A line as Python shows it."""
    return f"<code>{escape(text)}</code>"


def _head(name: object) -> str:
    return f'<th style="text-align:left">{escape(str(name))}</th>'


def _cell(value: object) -> str:
    return f'<td style="text-align:left">{escape(str(value))}</td>'
