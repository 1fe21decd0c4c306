"""Plots of image patches, shifted copies, and attention over an image by word, as PNG bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headway.plots.curves import COLOURS, INK, new_figure, to_png
from headway.plots.images import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pixels = NDArray[np.uint8]
Weights = NDArray[np.float32]
COPIES = ("as it is", "from left-up", "from right-up", "from left-down", "from right-down")
DRAWN, WORDS = 8, 16  # maximum images in one plot, and words of each
FADED = 0.84  # opacity of white where the attention is zero


def plot_patches(image: Pixels, patches: Pixels, copies: Pixels | None) -> bytes:
    """An image (C, H, W), its patches (rows, columns, P, P, C) in reading order, and shifted copies."""
    rows, columns, patch = patches.shape[:3]
    heights = (4.2,) if copies is None else (4.2, 2)
    figure = new_figure(9, 0.2 + sum(heights))
    grid = figure.add_gridspec(len(heights), 2 * len(COPIES), height_ratios=heights)
    half = len(COPIES)
    whole, apart = figure.add_subplot(grid[0, :half]), figure.add_subplot(grid[0, half:])
    _show(whole, image, f"{image.shape[1]} × {image.shape[2]} pixels")
    _lines(whole, rows, columns, patch)
    _spread(apart, patches)
    for number, copy in enumerate(() if copies is None else copies):
        axes = figure.add_subplot(grid[1, 2 * number : 2 * number + 2])
        _show(axes, copy, COPIES[number])
        _lines(axes, rows, columns, patch)
    return to_png(figure)


def plot_attention(
    images: Sequence[Pixels], names: Sequence[str], words: Sequence[Sequence[str]], weights: Sequence[Weights]
) -> bytes:
    """A row for each image (3, H, W): the image, then for each word the image faded by its attention weights."""
    chosen = list(zip(images, names, words, weights, strict=True))[:DRAWN]
    columns = 1 + min(max(len(caption) for _, _, caption, _ in chosen), WORDS)
    figure = new_figure(max(1.15 * columns, 4), 1.45 * len(chosen))
    grid = figure.subplots(len(chosen), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for row, (image, name, caption, maps) in zip(grid, chosen, strict=True):
        _show(row[0], image, shorten(name))
        for axes, word, share in zip(row[1:], caption, maps, strict=False):
            _show(axes, image, word)
            _fade(axes, image, share)
    return to_png(figure)


def _show(axes: Axes, image: Pixels, title: str) -> None:
    axes.set_axis_on()
    axes.imshow(image.transpose(1, 2, 0), interpolation="nearest", cmap="magma", vmin=0, vmax=255)
    axes.set_title(title, fontsize=8.5, color=INK, parse_math=False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _lines(axes: Axes, rows: int, columns: int, patch: int) -> None:
    for n in range(rows + 1):
        axes.axhline(n * patch - 0.5, color="white", linewidth=0.8)
    for n in range(columns + 1):
        axes.axvline(n * patch - 0.5, color="white", linewidth=0.8)


def _spread(axes: Axes, patches: Pixels) -> None:
    """Patches with gaps between them, numbered like the tokens."""
    rows, columns, patch = patches.shape[:3]
    gap = max(1, math.ceil(patch / 3))
    step = patch + gap
    sheet = np.full((rows * step - gap, columns * step - gap, patches.shape[-1]), 255, np.uint8)
    for row in range(rows):
        for column in range(columns):
            sheet[row * step : row * step + patch, column * step : column * step + patch] = patches[row, column]
    _show(axes, sheet.transpose(2, 0, 1), f"{rows * columns} tokens of {patch} × {patch} pixels, read row by row")
    for number in (0, 1, columns, rows * columns - 1):
        row, column = divmod(number, columns)
        place = (column * step + patch / 2 - 0.5, row * step + patch / 2 - 0.5)
        axes.text(*place, str(number + 1), ha="center", va="center", fontsize=7, color="white", fontweight="bold",
                  bbox={"facecolor": COLOURS[0], "edgecolor": "none", "pad": 1})  # fmt: skip


def _fade(axes: Axes, image: Pixels, share: Weights) -> None:
    """White over the image, the more opaque the smaller the weight relative to the largest one."""
    height, width = image.shape[1:]
    veil = np.ones((*share.shape, 4), np.float32)
    veil[..., 3] = FADED * (1 - share / max(float(share.max()), 1e-9))
    axes.imshow(veil, interpolation="nearest", extent=(-0.5, width - 0.5, height - 0.5, -0.5))
