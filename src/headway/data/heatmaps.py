"""Heat maps: a Gaussian around each keypoint, and keypoints from heat maps with sub-cell accuracy.

Keypoints are in pixels, with the centre of the first pixel at 0.5; a map of another size covers the same image.
"""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-6  # lower bound of values before taking the logarithm


def heatmaps(places: Tensor, *, image: tuple[int, int], size: tuple[int, int], spread: float) -> Tensor:
    """Keypoints (B, K, 2) as x, y in pixels -> Gaussians (B, K, rows, columns) of `spread` cells, 1 at the centre."""
    rows, columns = (
        torch.arange(cells, device=places.device) + 0.5 - places[:, :, axis, None] * (cells / pixels)
        for axis, cells, pixels in ((1, size[0], image[0]), (0, size[1], image[1]))
    )
    across, down = (torch.exp(-(each**2) / (2 * spread**2)) for each in (columns, rows))
    return down[:, :, :, None] * across[:, :, None, :]


def keypoints_of(maps: Tensor, *, image: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Heat maps (B, K, rows, columns) -> positions of the maxima (B, K, 2), in pixels, and their values (B, K).

    Sub-cell positions come from a parabola through the logarithms next to the maximum, which is exact for a Gaussian
    (Zhang et al. 2020, DARK, without their smoothing); at an edge the cell's centre is used.
    """
    size = maps.shape[2:]
    high, at = maps.flatten(2).max(2)
    row, column = at // size[1], at % size[1]
    levels = maps.clamp(min=TINY).log()
    along_x = levels.gather(2, row[:, :, None, None].expand(-1, -1, 1, size[1])).squeeze(2)
    along_y = levels.gather(3, column[:, :, None, None].expand(-1, -1, size[0], 1)).squeeze(3)
    places = [
        (cell + _between(line, cell) + 0.5) * (pixels / cells)
        for line, cell, cells, pixels in ((along_x, column, size[1], image[1]), (along_y, row, size[0], image[0]))
    ]
    return torch.stack(places, -1), high


def _between(line: Tensor, cell: Tensor) -> Tensor:
    """The offset of the parabola's maximum from the highest cell (B, K) of a line (B, K, N), at most half a cell."""
    last = line.shape[-1] - 1
    before, here, after = (line.gather(2, (cell + step).clamp(0, last)[:, :, None]).squeeze(2) for step in (-1, 0, 1))
    bend = before - 2 * here + after
    shift = torch.where(bend < -TINY, (before - after) / (2 * bend.clamp(max=-TINY)), 0.0)
    inside = (cell > 0) & (cell < last)
    return torch.where(inside, shift.clamp(-0.5, 0.5), 0.0)
