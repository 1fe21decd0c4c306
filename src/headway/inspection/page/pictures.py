"""Pictures as the page shows them: the pixels that were looked at, and the patches or places laid over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from headway.data.image_decoding import Pixels
from headway.inspection.page.tensors import PageTensors
from headway.nn.patches import Grid, PatchEmbedding

PATCHES = "patches"


def patch_sequence(grid: Grid, *, own: bool, label: str) -> dict[str, Any]:
    """A grid of patches as a sequence, with a token of its own in front if there is one."""
    rows, columns = grid
    named = [f"{row + 1}·{column + 1}" for row in range(rows) for column in range(columns)]
    return {
        "label": label,
        "tokens": [*(["class"] if own else []), *named],
        "grid": [rows, columns],
        "before": int(own),
        "start": 0,
    }


def picture_entry(
    pixels: Pixels, model: nn.Module, sequence: str, mean: Sequence[float], tensors: PageTensors
) -> dict[str, Any]:
    """The pixels (C, H, W) as rows of colours, and by how many pixels shifted copies stand beside them, if any do.

    Where a copy has no pixel the model reads zeros, which after normalising are the colour `mean` (0 to 1).
    """
    shifts = [part.shift for part in model.modules() if isinstance(part, PatchEmbedding)]
    shown = torch.from_numpy(pixels.copy()).permute(1, 2, 0)
    if shown.shape[-1] == 1:
        shown = shown.expand(-1, -1, 3)
    outside = [round(255 * part) for part in (mean if len(mean) == 3 else [*mean] * 3)]
    return {
        "pixels": tensors.octets(shown),
        "sequence": sequence,
        "shift": max(shifts, default=0),
        "outside": outside,
    }
