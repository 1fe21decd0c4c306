"""Plots of a run as PNG bytes; matplotlib is imported on use, and its global state is not touched."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headway.metrics.accuracy_by_position import PositionReport
from headway.storage.commit import commit_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's colours, distinguishable for colour-blind readers; with markers also in grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, GRID = "#333333", "#E3E3E3"
DPI = 150
MIN_SHARE = 50  # positions that fewer than one in this many sequences reach are not drawn: too noisy
GROWTH = 1.5  # lengths that grow at least by this factor get a logarithmic axis
MANY = 40  # points of a line that are drawn without markers
SMOOTHING = 80  # the standard deviation of the smoothing kernel is the run's length over this

Points = tuple[list[int], list[float]]


def plot_curves(
    log: Iterable[Mapping[str, Any]],
    path_or_buffer: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    ylabel: str = "loss (nats per token)",
    best: tuple[int, str] | None = None,
) -> bytes:
    """Training curves from log entries with `step` and any of `loss`, `val_loss`, `learning_rate`.

    `best` is the step of the best checkpoint and what to write there; without it the lowest validation loss is marked.
    """
    entries = list(log)
    train, val, rate = (_points(entries, key) for key in ("loss", "val_loss", "learning_rate"))
    figure = new_figure(8, 5.4 if rate[0] else 4.2)
    if rate[0]:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        bottom.plot(*rate, color=COLOURS[2], linewidth=1.6)
        bottom.set_ylim(bottom=0)
        bottom.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        _style(bottom, "step", "learning rate")
        _style(top, "", ylabel)
    else:
        top = figure.subplots()
        _style(top, "step", ylabel)
    _draw_losses(top, train, val, best)
    return to_png(figure, path_or_buffer)


def plot_validation(series: Mapping[str, Sequence[tuple[int, float]]], *, ylabel: str) -> bytes:
    """The validation loss of several runs by step, one line each; the best of each is in the legend."""
    figure = new_figure(8, 4.6)
    axes = figure.subplots()
    for number, (name, points) in enumerate(series.items()):
        steps, losses = _points([{"step": step, "loss": loss} for step, loss in points], "loss")
        label = f"{name}, best {min(losses):.4g}" if losses else f"{name}, not evaluated"
        marker = MARKERS[number % len(MARKERS)] if len(steps) <= MANY else ""
        # Runs that coincide: smaller markers on top leave those below visible.
        size = max(4.0, 7 - 0.8 * number)
        label = f" {label}" if label.startswith("_") else label  # matplotlib leaves such names out
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(steps, losses, color=colour, marker=marker, markersize=size, label=label, **_LINE)
    _style(axes, "step", ylabel)
    legend = axes.legend(frameon=False, labelcolor=INK, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return to_png(figure, None)


def plot_by_length(
    series: Mapping[str, Mapping[int, float]], title: str, ylabel: str, *, trained: int | None = None
) -> bytes:
    """One line for each name, values against length; lengths above `trained` are shaded.

    Lengths that grow by about doubling get a logarithmic axis.
    """
    from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

    figure = new_figure(8, 4.6)
    axes = figure.subplots()
    for number, (name, values) in enumerate(series.items()):
        lengths = sorted(values)
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        heights = [values[length] for length in lengths]
        # Lines often coincide at 100 %: smaller markers on top leave those below visible.
        size = max(5.0, 8 - 0.8 * number)
        axes.plot(lengths, heights, color=colour, marker=marker, markersize=size, label=name, **_LINE)
    everything = [value for values in series.values() for value in values.values()]
    if everything and min(everything) >= 0 and max(everything) <= 1:
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    known = sorted({length for values in series.values() for length in values})
    longest = known[-1] if known else 0
    if doubling := len(known) > 2 and all(b >= GROWTH * a > 0 for a, b in pairwise(known)):
        axes.set_xscale("log", base=2)
    if trained is not None and longest > trained:
        left, right = axes.get_xlim()
        edge = 1.02 * trained if doubling else trained + 0.5
        axes.axvspan(edge, right, color="#F2F2F2", zorder=0, label="longer than in training")
        axes.set_xlim(left, right)
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=10)
    _style(axes, "length", ylabel)
    if doubling:
        axes.xaxis.set_major_locator(FixedLocator(known))
        axes.xaxis.set_minor_locator(NullLocator())
    if series:
        # Beside the axes, where it covers no line.
        axes.legend(frameon=False, labelcolor=INK, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
    return to_png(figure, None)


def plot_positions(report: PositionReport, title: str) -> bytes:
    """Teacher-forced and free-running accuracy by position, their gap, and how many sequences are that long."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

    uneven = len(set(report.counts)) > 1
    figure = new_figure(8, 5.4 if uneven else 4.6)
    top, *rest = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1)) if uneven else [figure.subplots()]
    _draw_gap(top, report)
    top.set(ylim=(-0.03, 1.03), xlim=(0.4, len(report.counts) + 0.6))
    top.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    top.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=10, parse_math=False)
    _style(top, "" if rest else "position", "right tokens")
    for bottom in rest:
        bottom.bar(range(1, len(report.counts) + 1), report.counts, width=0.8, color="#BBBBBB")
        bottom.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        bottom.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        _style(bottom, "position", "lines so long")
    top.legend(frameon=False, labelcolor=INK, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
    return to_png(figure, None)


def _draw_gap(axes: Axes, report: PositionReport) -> None:
    """Both curves and the area between them; smoothed if there are many positions."""
    positions = range(1, sum(MIN_SHARE * count >= report.counts[0] for count in report.counts) + 1)
    noisy = len(positions) > 40
    heights = []
    for number, (name, all_of_it) in enumerate((("teacher-forced", report.forced), ("free-running", report.free))):
        colour, values = COLOURS[number], all_of_it[: len(positions)]
        if noisy:
            axes.plot(positions, values, color=colour, linewidth=0.6, alpha=0.45)
        drawn = _smoothed(values) if noisy else np.array(values)
        marks: dict[str, Any] = {} if noisy else {"marker": MARKERS[number], "markersize": 7.5 - 2.5 * number}
        axes.plot(positions, drawn, color=colour, label=f"{name}, smoothed" if noisy else name, **marks, **_LINE)
        heights.append(drawn)
    axes.fill_between(positions, heights[0], heights[1], color=COLOURS[1], alpha=0.12, linewidth=0, label="gap")


_LINE: dict[str, Any] = {"linewidth": 1.8, "markeredgecolor": "white", "markeredgewidth": 0.8, "clip_on": False}


def _draw_losses(axes: Axes, train: Points, val: Points, best: tuple[int, str] | None) -> None:
    steps, losses = train
    # A few spikes must not flatten the rest of the curve: they may leave the axes, and the smoothed line is clipped to
    # the top of the axes there.
    usual = sorted(losses)[: len(losses) - len(losses) // 100]
    shown = [*losses[:1], *usual, *val[1]]
    if steps:
        highest = max(shown)
        smooth = _smoothed([min(loss, highest) for loss in losses])
        axes.plot(steps, losses, color=COLOURS[0], linewidth=0.6, alpha=0.45, label="train, each entry")
        axes.plot(steps, smooth, color=COLOURS[0], linewidth=1.8, label="train, smoothed")
    if val[0]:
        axes.plot(*val, color=COLOURS[1], marker="o", markersize=5, label="validation", zorder=3, **_LINE)
        _mark_best(axes, val, best, last=max(val[0] + steps))
    if shown and (spread := max(shown) - min(shown)) > 0:
        axes.set_ylim(min(shown) - 0.05 * spread, max(shown) + 0.08 * spread)
    if shown:
        axes.legend(facecolor="white", edgecolor="none", framealpha=0.9, labelcolor=INK, loc="upper right")
    else:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "nothing logged yet", transform=axes.transAxes, ha="center", color=INK)


def _mark_best(axes: Axes, val: Points, best: tuple[int, str] | None, last: int) -> None:
    losses = dict(zip(*val, strict=True))
    step, text = best if best is not None and best[0] in losses else (min(losses, key=losses.__getitem__), "")
    loss = losses[step]
    side = "right" if step > 0.9 * last else "center"  # at the edge a centred text would be cut off
    axes.annotate(
        text or f"best {loss:.3f}",
        (step, loss),
        xytext=(0, 9),
        textcoords="offset points",
        ha=side,
        color=COLOURS[1],
        fontsize=9,
    )


def _points(entries: Sequence[Mapping[str, Any]], key: str) -> Points:
    """Steps and finite values in order; of a step that a resumed run logged twice, the later entry."""
    values = {int(entry["step"]): float(entry[key]) for entry in entries if entry.get(key) is not None}
    steps = [step for step in sorted(values) if math.isfinite(values[step])]
    return steps, [values[step] for step in steps]


def _smoothed(values: Sequence[float]) -> NDArray[np.float64]:
    """Gaussian smoothing, centred, so that it does not lag behind like a running mean."""
    width = max(1.0, len(values) / SMOOTHING)
    reach = min(math.ceil(3 * width), (len(values) - 1) // 2)
    offsets = np.arange(-reach, reach + 1)
    bell = np.exp(-0.5 * (offsets / width) ** 2)
    weights: NDArray[np.float64] = np.convolve(np.ones(len(values)), bell, "same")
    means: NDArray[np.float64] = np.convolve(values, bell, "same") / weights
    return means


def new_figure(width: float, height: float) -> Figure:
    """A figure on the Agg canvas, without pyplot, which keeps global state and may need a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _style(axes: Axes, xlabel: str, ylabel: str) -> None:
    """Style of axes: two spines, a light grid behind the data, integer ticks on the x axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9, length=3)
    axes.margins(x=0.02)
    axes.set_xlabel(xlabel, color=INK, fontsize=10)
    axes.set_ylabel(ylabel, color=INK, fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))  # one tick for a single position
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def to_png(figure: Figure, target: str | os.PathLike[str] | BinaryIO | None = None) -> bytes:
    """A figure as PNG bytes, also written to `target` if given."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})  # no version: equal runs give equal files
    data = buffer.getvalue()
    if isinstance(target, str | os.PathLike):
        commit_output(Path(target), data)
    elif target is not None:
        target.write(data)
    return data


def to_svg(figure: Figure) -> bytes:
    """A figure as SVG bytes, without version and date and with fixed identifiers: equal figures give equal files."""
    from matplotlib import rc_context

    buffer = BytesIO()
    with rc_context({"svg.hashsalt": "headway", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
