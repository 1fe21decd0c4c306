"""Plots of text classifiers as PNG bytes: confusion or F1 by class beside a reliability diagram; numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headway.metrics.calibration import Reliability
from headway.metrics.classification import ClassificationReport
from headway.metrics.multilabel import MultiLabelCounts
from headway.plots.curves import COLOURS, GRID, INK, new_figure, to_png
from headway.plots.images import draw_confusion, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = 4.6  # inches of the reliability diagram
LARGEST = 14.0  # inches of the other panel
NAMED = 60  # classes up to which bars have names


def plot_classes(report: ClassificationReport, bins: Reliability, title: str) -> bytes:
    """The confusion matrix as shares of each true class (rows), and the reliability diagram."""
    side = min(3.4 + 0.42 * len(report.classes), LARGEST)
    figure = new_figure(side + 1.2 + PANEL, max(side, PANEL))
    left, right = figure.subplots(1, 2, width_ratios=(side + 1.2, PANEL))
    draw_confusion(figure, left, report)
    _titled(left, f"{title}: classes")
    _draw_reliability(right, bins, "probability of the predicted class", "share that is right")
    return to_png(figure)


def plot_labels(classes: Sequence[str], counts: MultiLabelCounts, bins: Reliability, title: str) -> bytes:
    """F1 of each label, the commonest first, and the reliability diagram of all decisions."""
    order = np.argsort(-counts.there, kind="stable")[:NAMED][::-1]
    tall = max(min(1.6 + 0.3 * len(order), LARGEST), PANEL)
    figure = new_figure(5.4 + PANEL, tall)
    left, right = figure.subplots(1, 2, width_ratios=(5.4, PANEL))
    shares = np.asarray(counts.f1_by_label)[order]
    left.barh(range(len(order)), shares, color=COLOURS[5], height=0.75)
    for place, (share, number) in enumerate(zip(shares, counts.there[order], strict=True)):
        left.text(share + 0.015, place, f"{share:.2f}  of {number:,}", va="center", fontsize=7.5, color=INK)
    left.set_yticks(range(len(order)), [shorten(classes[n]) for n in order], fontsize=8, parse_math=False)
    left.set_xlim(0, 1.28)
    left.set_xticks(np.linspace(0, 1, 6))
    left.set_ylim(-0.6, len(order) - 0.4)
    _axes(left, "F1", "")
    left.tick_params(axis="y", length=0)
    _titled(left, f"{title}: labels")
    _draw_reliability(right, bins, "probability of a label", "share that has it")
    return to_png(figure)


def plot_numbers(labels: NDArray[np.float64], predicted: NDArray[np.float64], title: str) -> bytes:
    """Predicted against true numbers, and how the errors are distributed."""
    figure = new_figure(2 * PANEL + 0.8, PANEL)
    left, right = figure.subplots(1, 2)
    low, high = (float(side(np.concatenate([labels, predicted]))) for side in (np.min, np.max))
    room = 0.04 * (high - low or 1.0)
    left.plot([low - room, high + room], [low - room, high + room], color=INK, linewidth=1, linestyle="--", zorder=1)
    faint = float(np.clip(120 / max(len(labels), 1), 0.2, 0.8))
    left.scatter(labels, predicted, s=14, color=COLOURS[0], alpha=faint, linewidths=0, zorder=2)
    left.set(xlim=(low - room, high + room), ylim=(low - room, high + room), aspect="equal")
    _axes(left, "label", "predicted")
    _titled(left, f"{title}: numbers")
    right.hist(predicted - labels, bins=min(max(len(labels) // 8, 5), 40), color=COLOURS[5], edgecolor="white")
    right.axvline(0, color=INK, linewidth=1, linestyle="--")
    _axes(right, "predicted - label", "texts")
    _titled(right, "errors")
    return to_png(figure)


def _draw_reliability(axes: Axes, bins: Reliability, xlabel: str, ylabel: str) -> None:
    """Bars of how often each bin is right against the diagonal of perfect calibration (Guo et al. 2017, figure 1).

    The gap to the mean confidence of the bin is drawn, and the share of all predictions stands above each bar.
    """
    count = len(bins.counts)
    edges = np.linspace(0, 1, count + 1)
    middle, filled = (edges[:-1] + edges[1:]) / 2, bins.counts > 0
    width = 0.92 / count
    axes.bar(middle[filled], bins.accuracy[filled], width, color=COLOURS[5], label="accuracy of the bin", zorder=2)
    gap = bins.confidence - bins.accuracy
    axes.bar(
        middle[filled], gap[filled], width, bottom=bins.accuracy[filled], facecolor="none", edgecolor=COLOURS[1],
        hatch="////", linewidth=0.8, label="gap to its confidence", zorder=3,
    )  # fmt: skip
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle="--", label="perfect calibration", zorder=4)
    shares = bins.counts / bins.counts.sum()
    tops = np.maximum(bins.accuracy, bins.confidence)
    for place in np.flatnonzero(filled):
        share = f"{shares[place]:.0%}" if shares[place] >= 0.01 else "<1%"
        axes.text(middle[place], tops[place] + 0.015, share, ha="center", fontsize=6.5, color=INK, zorder=5)
    axes.set(xlim=(0, 1), ylim=(0, 1.36), xticks=np.linspace(0, 1, 6), yticks=np.linspace(0, 1, 6))
    _axes(axes, xlabel, ylabel)
    axes.legend(frameon=False, labelcolor=INK, fontsize=8, loc="upper left")
    _titled(axes, f"calibration: ECE {bins.ece:.3f}, {count} bins")


def _axes(axes: Axes, xlabel: str, ylabel: str) -> None:
    axes.set_xlabel(xlabel, color=INK)
    axes.set_ylabel(ylabel, color=INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _titled(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=10, parse_math=False)
