"""Plots of images with the detected skeletons, as PNG bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.plots.curves import COLOURS, INK, new_figure, to_png
from headway.plots.images import SHEET, shorten

# The edges of COCO's skeleton by keypoint index: left side, right side, and between them.
LEFT = ((5, 7), (7, 9), (5, 11), (11, 13), (13, 15), (0, 1), (1, 3))
RIGHT = ((6, 8), (8, 10), (6, 12), (12, 14), (14, 16), (0, 2), (2, 4))
MIDDLE = ((5, 6), (11, 12))
MIN_SCORE = 0.1  # keypoints with a lower heat map maximum are not drawn


def plot_poses(
    pixels: Sequence[NDArray[np.uint8]], names: Sequence[str], keypoints: Sequence[NDArray[np.float32]]
) -> bytes:
    """Images (3, S, S) with their keypoints (K, 3): x and y in pixels, score."""
    pixels = pixels[:SHEET]
    columns = min(len(pixels), 4)
    rows = math.ceil(len(pixels) / columns)
    figure = new_figure(3.2 * columns, 3.4 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for number, (image, points) in enumerate(zip(pixels, keypoints, strict=False)):
        axes = grid[number // columns, number % columns]
        size = image.shape[-1]
        # The centre of the first pixel is at 0.5, as for keypoints.
        axes.imshow(image.transpose(1, 2, 0), interpolation="nearest", extent=(0, size, size, 0))
        axes.set_title(shorten(names[number]), fontsize=8, color=INK, parse_math=False)
        sure = points[:, 2] >= MIN_SCORE
        for lines, colour in ((LEFT, COLOURS[0]), (RIGHT, COLOURS[1]), (MIDDLE, COLOURS[2])):
            for pair in lines:
                if max(pair) < len(points) and sure[list(pair)].all():
                    axes.plot(*points[list(pair), :2].T, color="white", linewidth=3.4, solid_capstyle="round")
                    axes.plot(*points[list(pair), :2].T, color=colour, linewidth=1.8, solid_capstyle="round")
        axes.scatter(*points[sure, :2].T, s=14, color=COLOURS[4], edgecolors="white", linewidths=0.6, zorder=3)
        axes.set(xlim=(0, size), ylim=(size, 0))
    return to_png(figure)
