"""Plots of detected objects, and of a detector's precision by recall, as PNG bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.metrics.average_precision import RECALLS, THRESHOLDS
from headway.metrics.detection import DetectionReport
from headway.plots.curves import COLOURS, GRID, INK, new_figure, to_png
from headway.plots.images import shorten

SIDE = 6.4  # inches of the longer side of an image
DRAWN = (0, 5, 9)  # thresholds whose curves are drawn: .50, .75, .95
BARS = 30  # classes with a bar each


def plot_objects(
    pixels: NDArray[np.uint8],
    title: str,
    classes: Sequence[str],
    scores: NDArray[np.float64],
    boxes: NDArray[np.float64],
) -> bytes:
    """An image (3, H, W) with boxes (P, 4) as x, y, width, height in its pixels, each with its class and score."""
    from matplotlib.patches import Rectangle

    height, width = pixels.shape[1:]
    inch = SIDE / max(height, width)
    figure = new_figure(max(width * inch, 2.4), height * inch + 0.4)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.imshow(pixels.transpose(1, 2, 0), interpolation="nearest", extent=(0, width, height, 0))
    axes.set_title(shorten(title, 60), fontsize=9, color=INK, parse_math=False)
    names = sorted(set(classes))
    for name, score, (x, y, wide, high) in zip(classes, scores, boxes, strict=True):
        colour = COLOURS[names.index(name) % len(COLOURS)]
        for line, ink in ((3.6, "white"), (1.8, colour)):
            axes.add_patch(Rectangle((x, y), wide, high, fill=False, edgecolor=ink, linewidth=line))
        above = y > 0.08 * height
        axes.text(
            x,
            y if above else y + high,
            f"{shorten(name)} {score:.2f}",
            fontsize=8,
            color="white",
            va="bottom" if above else "top",
            clip_on=True,
            parse_math=False,
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 1.5, "alpha": 0.9},
        )
    axes.set(xlim=(0, width), ylim=(height, 0))
    return to_png(figure)


def plot_precision(report: DetectionReport, classes: Sequence[str], title: str) -> bytes:
    """Precision by recall at three overlaps, the mean over classes, beside the average precision of each class."""
    figure = new_figure(10, 4.6)
    left, right = figure.subplots(1, 2)
    for place, number in enumerate(DRAWN):
        label = f"IoU {THRESHOLDS[number]:.2f}: AP {report.curves[number].mean():.3f}"
        left.plot(RECALLS, report.curves[number], color=COLOURS[place], linewidth=1.8, label=label)
    left.set(xlim=(0, 1), ylim=(0, 1.02))
    left.set_xlabel("recall", color=INK)
    left.set_ylabel("precision", color=INK)
    left.legend(frameon=False, labelcolor=INK, loc="lower left", fontsize=8)
    left.grid(color=GRID)
    left.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", parse_math=False)
    shown = [(name, value) for name, value in zip(classes, report.by_class, strict=True) if value is not None][:BARS]
    right.barh(range(len(shown)), [value for _, value in shown], color=COLOURS[5])
    right.set_yticks(range(len(shown)), [shorten(name) for name, _ in shown], fontsize=8, parse_math=False)
    right.set(xlim=(0, 1))
    right.invert_yaxis()
    right.set_xlabel("AP (IoU .50 to .95)", color=INK)
    for axes in (left, right):
        axes.tick_params(colors=INK, length=0)
        axes.spines[["top", "right"]].set_visible(False)
    return to_png(figure)
