"""How many pixels of an image have each level, counted for those images alone that somebody asks about.

torch counts by adding 1 to a place in memory for every pixel of every image. On a GPU that takes longer than all else
that is done to an image, so a compiled step has a Triton kernel, which leaves at once where nobody asks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway._compile import triton_missing

LEVELS = 256


def histograms(images: Tensor, asked_B: Tensor) -> Tensor:
    """Bytes (B, 3, N) -> pixels of each level (B, 3, 256), of images not asked about (B,) perhaps 0."""
    if images.is_cuda and torch.compiler.is_compiling() and not triton_missing():
        from headway.data.histogram_tiles import counted  # where there is Triton

        found: Tensor = counted(images, asked_B)
        return found
    count = torch.zeros((*images.shape[:2], LEVELS), dtype=torch.int32, device=images.device)
    levels = images.long()
    return count.scatter_add(2, levels, torch.ones_like(levels, dtype=torch.int32))
