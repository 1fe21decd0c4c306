"""Plots of predictions on images, as PNG bytes: confusion matrix, classes, captions."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headway.metrics.classification import ClassificationReport
from headway.plots.curves import COLOURS, INK, new_figure, to_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUMBERED = 20  # up to this many classes every cell shows its count
SHEET = 64  # images in one plot
CAPTION_WIDTH = 34  # characters per line below an image


def plot_confusion(report: ClassificationReport, title: str) -> bytes:
    """The confusion matrix as shares of each true class (rows)."""
    side = min(3 + 0.42 * len(report.classes), 14)
    figure = new_figure(side + 1.2, side)
    axes = figure.subplots()
    draw_confusion(figure, axes, report)
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=10, parse_math=False)
    return to_png(figure)


def draw_confusion(figure: Figure, axes: Axes, report: ClassificationReport) -> None:
    """Draw the confusion matrix as shares of each true class (rows), with its scale."""
    from matplotlib.colors import LinearSegmentedColormap

    count = len(report.classes)
    totals = report.confusion.sum(1, keepdims=True)
    shares = report.confusion / np.maximum(totals, 1)
    blues = LinearSegmentedColormap.from_list("share", ["white", COLOURS[0]])
    shown = axes.imshow(shares, cmap=blues, vmin=0, vmax=1)
    if count <= NUMBERED:
        for row, column in np.argwhere(report.confusion > 0):
            dark = shares[row, column] > 0.5
            text = f"{report.confusion[row, column]:,}"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color="white" if dark else INK)
    named = range(count) if count <= 3 * NUMBERED else []
    axes.set_xticks(named, [report.classes[n] for n in named], rotation=90, fontsize=8, parse_math=False)
    axes.set_yticks(named, [report.classes[n] for n in named], fontsize=8, parse_math=False)
    axes.set_xlabel("taken for", color=INK)
    axes.set_ylabel("class", color=INK)
    axes.tick_params(colors=INK, length=0)
    bar = figure.colorbar(shown, ax=axes, shrink=0.6, format=lambda value, _: f"{value:.0%}")
    bar.outline.set_visible(False)


def plot_predictions(
    pixels: Sequence[NDArray[np.uint8]], names: Sequence[str], tops: Sequence[Sequence[tuple[str, float]]]
) -> bytes:
    """Images (C, H, W), each with its file name above and the most likely classes as bars below."""
    pixels = pixels[:SHEET]
    columns = min(len(pixels), 8)
    rows = math.ceil(len(pixels) / columns)
    lines = max(len(top) for top in tops)
    tall = 0.22 * lines
    figure = new_figure(max(2.0 * columns, 3), rows * (2.1 + tall))
    grid = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=[1.7, tall] * rows)
    for axes in grid.flat:
        axes.set_axis_off()
    for number, image in enumerate(pixels):
        row, column = 2 * (number // columns), number % columns
        above, below = grid[row, column], grid[row + 1, column]
        above.imshow(image.transpose(1, 2, 0), interpolation="nearest", cmap="magma", vmin=0, vmax=255)
        above.set_title(shorten(names[number]), fontsize=8, color=INK, parse_math=False)
        below.barh(range(len(tops[number])), [share for _, share in tops[number]], color=COLOURS[5], height=0.8)
        for line, (name, share) in enumerate(tops[number]):
            below.text(
                0.02, line, f"{shorten(name)}  {share:.1%}", va="center", fontsize=7, color=INK, parse_math=False
            )
        below.set(xlim=(0, 1), ylim=(lines - 0.5, -0.5))
    return to_png(figure)


def plot_captions(pixels: Sequence[NDArray[np.uint8]], names: Sequence[str], captions: Sequence[str]) -> bytes:
    """Images (3, H, W), each with its file name above and its caption below."""
    pixels = pixels[:SHEET]
    columns = min(len(pixels), 4)
    rows = math.ceil(len(pixels) / columns)
    figure = new_figure(max(2.6 * columns, 3), 3.3 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, image, name, caption in zip(grid.flat, pixels, names, captions, strict=False):
        axes.imshow(image.transpose(1, 2, 0), interpolation="nearest")
        axes.set_title(shorten(name), fontsize=8, color=INK, parse_math=False)
        # The layout makes room for an axis label, unlike for text beside the axes.
        axes.set_axis_on()
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.set_xlabel(textwrap.fill(caption, CAPTION_WIDTH), fontsize=8, color=INK, parse_math=False)
    return to_png(figure)


def shorten(name: str, most: int = 24) -> str:
    """A name of at most `most` characters, its start replaced by an ellipsis."""
    return name if len(name) <= most else f"…{name[1 - most :]}"
