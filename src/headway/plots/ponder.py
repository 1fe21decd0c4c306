"""Plot of the ACT steps of each token (Graves 2016), as PNG bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headway.errors import DataError
from headway.plots.curves import INK, new_figure, to_png

DARK = 0.6  # fraction of the scale above which text is white


def plot_ponder(
    labels: Sequence[Sequence[str]], steps: Sequence[Sequence[int]], title: str, *, names: Sequence[str] = ()
) -> bytes:
    """A row for each text, a cell for each token, darker for more steps; `names` label the rows.

    Raises DataError unless there are as many labels as steps.
    """
    sizes = [(len(row), len(taken)) for row, taken in zip(labels, steps, strict=True)]
    for number, (tokens, counts) in enumerate(sizes):
        if tokens != counts:
            raise DataError(f"row {number}: {tokens} labels for {counts} counts of steps; expected the same")
    width = max((tokens for tokens, _ in sizes), default=0)
    if not width:
        raise DataError("nothing to draw: no row has a token")
    table = np.full((len(steps), width), np.nan)
    for y, taken in enumerate(steps):
        table[y, : len(taken)] = taken
    low, high = float(np.nanmin(table)), float(np.nanmax(table))
    figure = new_figure(max(1.6 + 0.62 * width, 5.0), 0.9 + 0.46 * len(steps))
    axes = figure.subplots()
    image = axes.imshow(table, cmap="Blues", vmin=min(low, high - 1) - 0.5, vmax=high + 0.5, aspect="auto")
    for y, (row, taken) in enumerate(zip(labels, steps, strict=True)):
        for x, (label, count) in enumerate(zip(row, taken, strict=True)):
            dark = (count - low) / max(high - low, 1.0) > DARK
            axes.text(x, y, f"{label}\n{count}", ha="center", va="center", fontsize=8, color="white" if dark else INK)
    axes.set_xticks([])
    axes.set_yticks(range(len(steps)), list(names) or [""] * len(steps), fontsize=9, color=INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=11, color=INK, loc="left")
    bar = figure.colorbar(image, ax=axes, ticks=range(int(low), int(high) + 1), pad=0.02)
    bar.set_label("steps", fontsize=9, color=INK)
    bar.outline.set_visible(False)
    return to_png(figure)
