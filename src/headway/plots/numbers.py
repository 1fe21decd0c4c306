"""Plot of predicted numbers beside the true ones, as PNG bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError
from headway.plots.curves import INK, new_figure, to_png


def plot_numbers(true: NDArray[np.float64], found: NDArray[np.float64], title: str) -> bytes:
    """A point for each prediction, true number across, predicted number up; on the line they are the same.

    Raises DataError unless there are as many of each, at least one.
    """
    if true.shape != found.shape or not true.size:
        raise DataError(f"numbers {true.shape} and {found.shape}: expected equal shapes, at least one number")
    figure = new_figure(5.0, 4.6)
    axes = figure.subplots()
    ends = (float(min(true.min(), found.min())), float(max(true.max(), found.max())))
    axes.plot(ends, ends, color=INK, linewidth=0.8)
    axes.scatter(true, found, s=9, alpha=0.6, linewidths=0)
    axes.set_xlabel("true")
    axes.set_ylabel("predicted")
    axes.set_title(title, fontsize=10)
    return to_png(figure)
