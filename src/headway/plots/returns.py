"""Plot of achieved against target returns, as PNG or SVG bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headway.metrics.run_aggregates import Estimate
from headway.plots.curves import to_png, to_svg
from headway.plots.lab_figures import BLUE, INK, ORANGE, SOFT, line, panels, style

TOLERANCE = 0.1  # share of the target within which a return counts as reached


def plot_returns(
    targets: Sequence[float],
    got: Sequence[Estimate],
    *,
    title: str,
    band: str,
    runs: NDArray[np.float64] | None = None,
    cloned: Estimate | None = None,
    kind: Literal["png", "svg"] = "png",
) -> bytes:
    """The mean return for each of K targets with its interval, named by `band`, beside the line where both are equal.

    `runs` (R, K) are drawn as points; `cloned` is the return of behaviour cloning, which is not asked for any.
    """
    figure, (axes,) = panels(1, height=5.2)
    order = np.argsort(targets)
    x = np.asarray(targets, np.float64)[order]
    ends = np.asarray([min(0.0, x[0]), max(0.0, x[-1])])
    axes.plot(ends, ends, color=INK, linewidth=1.0, label="got what was asked for", zorder=1)
    for sign in (-1, 1):
        label = f"± {TOLERANCE:.0%} of it".replace("%", " %") if sign > 0 else None
        axes.plot(ends, (1 + sign * TOLERANCE) * ends, color=SOFT, linewidth=1.0, linestyle=(0, (2, 3)), label=label)
    if runs is not None:
        axes.scatter(
            np.repeat(x[None], len(runs), 0), runs[:, order], s=26, color=BLUE, alpha=0.35, linewidths=0, label="a run"
        )
    means, lows, highs = (np.asarray([getattr(each, name) for each in got])[order] for name in ("value", "low", "high"))
    line(axes, x, means, f"mean, {band}", 0, low=lows, high=highs)
    if cloned is not None:
        axes.axhline(cloned.value, color=ORANGE, linewidth=1.8, linestyle="--", label="behaviour cloning")
        axes.axhspan(cloned.low, cloned.high, color=ORANGE, alpha=0.15, linewidth=0)
    axes.set_xticks(x, [f"{each:g}" for each in x])
    style(axes, title, "return asked for", "mean return of fresh episodes", legend="upper left")
    return to_svg(figure) if kind == "svg" else to_png(figure)
