"""The look of the labs' figures: panels side by side, one set of colours, readable at 800 pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from headway.plots.curves import COLOURS, GRID, INK, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0  # inches: 1,200 pixels, read at 800
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = COLOURS
SOFT = "#6B7480"  # of what is beside the point: bounds, baselines
HEATMAP = "Blues"  # from white; for signed values SIGNED, from -limit to limit
SIGNED = "RdBu_r"
__all__ = ["BLACK", "BLUE", "COLOURS", "GREEN", "HEATMAP", "INK", "MARKERS", "ORANGE", "PINK", "SIGNED", "SKY", "SOFT",
           "YELLOW", "heatmap", "line", "panels", "reference", "style"]  # fmt: skip


def panels(count: int = 1, *, height: float = 3.4, rows: int = 1, widths: Sequence[float] | None = None) -> Any:
    """A figure of 8 inches and its axes: a list of `count` in each of `rows` rows, one list for all."""
    figure = new_figure(WIDTH, height)
    made = figure.subplots(rows, count, squeeze=False, width_ratios=widths)
    return figure, [axes for row in made for axes in row]


def style(axes: Axes, title: str, xlabel: str, ylabel: str, *, legend: bool | str = False) -> None:
    """Title, axis labels with their units, two spines, a light grid; a legend where asked for (its place, or best)."""
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold", pad=8, parse_math=False)
    axes.set_xlabel(xlabel, color=INK, fontsize=10)
    axes.set_ylabel(ylabel, color=INK, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(colors=INK, labelsize=9, length=3)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    if legend:
        looks: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "framealpha": 0.85, "handlelength": 1.6}
        axes.legend(fontsize=9, labelcolor=INK, **{"loc": legend if isinstance(legend, str) else "best", **looks})


def line(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    label: str,
    number: int,
    *,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    markers: bool = True,
    dashed: bool = False,
) -> None:
    """Curve `number` of a figure: its colour and marker, and a band from `low` to `high` where given."""
    colour = COLOURS[number % len(COLOURS)]
    marker = MARKERS[number % len(MARKERS)] if markers else ""
    axes.plot(
        np.asarray(x), np.asarray(y), color=colour, marker=marker, markersize=5.5, markeredgecolor="white",
        markeredgewidth=0.7, linewidth=1.8, label=label, linestyle="--" if dashed else "-",
    )  # fmt: skip
    if low is not None and high is not None:
        axes.fill_between(np.asarray(x), np.asarray(low), np.asarray(high), color=colour, alpha=0.18, linewidth=0)


def reference(axes: Axes, value: float, label: str = "", *, vertical: bool = False) -> None:
    """A thin dashed line at a known value."""
    draw = axes.axvline if vertical else axes.axhline
    draw(value, color=SOFT, linewidth=1.1, linestyle=(0, (4, 3)), label=label or None, zorder=1)


def heatmap(
    figure: Figure,
    axes: Axes,
    values: ArrayLike,
    *,
    title: str,
    xlabel: str = "",
    ylabel: str = "",
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    signed: bool = False,
    label: str = "",
    write: str = "",
    limit: float | None = None,
) -> None:
    """Cells (R, C) with a colour bar; `write` is a format such as ".2f" for the number in each cell."""
    table = np.asarray(values, dtype=float)
    top = float(np.nanmax(np.abs(table))) if limit is None else limit
    top = top or 1.0
    low = -top if signed else min(0.0, float(np.nanmin(table)))
    image = axes.imshow(table, cmap=SIGNED if signed else HEATMAP, vmin=low, vmax=top, aspect="auto")
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold", pad=8, parse_math=False)
    axes.set_xlabel(xlabel, color=INK, fontsize=10)
    axes.set_ylabel(ylabel, color=INK, fontsize=10)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9, length=0)
    if rows:
        axes.set_yticks(range(len(rows)), list(rows))
    if columns:
        axes.set_xticks(range(len(columns)), list(columns))
    for y, x in np.ndindex(*table.shape) if write else ():
        share = (table[y, x] - low) / (top - low)
        dark = abs(2 * share - 1) > 0.65 if signed else share > 0.6
        axes.text(
            x, y, format(table[y, x], write), ha="center", va="center", fontsize=9, color="white" if dark else INK
        )
    bar = figure.colorbar(image, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=9, length=2)
    if label:
        bar.set_label(label, fontsize=9, color=INK)
