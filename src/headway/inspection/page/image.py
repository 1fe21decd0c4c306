"""Pictures as the page shows them: the pixels that the model read, and the patches or places drawn over them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headway.inspection.page.tensors import PageTensors
from headway.nn.patches import PatchEmbedding
from headway.tasks.explanation import ImageView


def picture_entry(image: ImageView, model: nn.Module, tensors: PageTensors) -> dict[str, Any]:
    """The pixels (C, H, W) as rows of colours, and by how many pixels shifted copies stand beside them, if any do.

    Where a copy has no pixel the model reads zeros, which after normalising are the colour `mean` (0 to 1).
    """
    shifts = [part.shift for part in model.modules() if isinstance(part, PatchEmbedding)]
    shown = torch.from_numpy(image.pixels.copy()).permute(1, 2, 0)
    if shown.shape[-1] == 1:
        shown = shown.expand(-1, -1, 3)
    mean = image.mean
    outside = [round(255 * part) for part in (mean if len(mean) == 3 else [*mean] * 3)]
    return {
        "pixels": tensors.octets(shown),
        "sequence": image.sequence,
        "shift": max(shifts, default=0),
        "outside": outside,
    }
