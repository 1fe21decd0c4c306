"""Heat maps: a Gaussian around each keypoint, and the keypoint back from a map to a fraction of a cell.

A keypoint is in pixels, the first pixel's centre at one half; a map of another size covers the same picture.
"""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-6  # below which a map's values have no logarithm worth knowing


def heatmaps(places: Tensor, *, image: tuple[int, int], size: tuple[int, int], spread: float) -> Tensor:
    """Places (B, K, 2) as x, y in pixels -> (B, K, rows, columns): 1 at the place, `spread` in cells."""
    rows, columns = (
        torch.arange(cells, device=places.device) + 0.5 - places[:, :, axis, None] * (cells / pixels)
        for axis, cells, pixels in ((1, size[0], image[0]), (0, size[1], image[1]))
    )
    across, down = (torch.exp(-(each**2) / (2 * spread**2)) for each in (columns, rows))
    return down[:, :, :, None] * across[:, :, None, :]


def keypoints_of(maps: Tensor, *, image: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Maps (B, K, rows, columns) -> where each is highest (B, K, 2), in pixels, and how high (B, K).

    Between cells by a parabola through the logarithms beside the maximum, which is exact for a Gaussian (Zhang et al.
    2020, without their second smoothing); at an edge the cell's centre.
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
    """How far from a line's highest cell (B, K) its parabola (B, K, N) is highest: at most half a cell."""
    last = line.shape[-1] - 1
    before, here, after = (line.gather(2, (cell + step).clamp(0, last)[:, :, None]).squeeze(2) for step in (-1, 0, 1))
    bend = before - 2 * here + after
    shift = torch.where(bend < -TINY, (before - after) / (2 * bend.clamp(max=-TINY)), 0.0)
    inside = (cell > 0) & (cell < last)
    return torch.where(inside, shift.clamp(-0.5, 0.5), 0.0)
