"""Histograms of the levels of images, only for the images that need one.

torch's scatter_add over all pixels of all images takes longer on a GPU than the rest of the augmentation, so compiled
code uses a Triton kernel that returns at once for images that are not requested.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway._compile import triton_missing

LEVELS = 256


def histograms(images: Tensor, asked_B: Tensor) -> Tensor:
    """Bytes (B, 3, N) -> counts (B, 3, 256), undefined for images not requested (B,)."""
    if images.is_cuda and torch.compiler.is_compiling() and not triton_missing():
        from headway.data.histogram_tiles import counted  # needs Triton

        found: Tensor = counted(images, asked_B)
        return found
    count = torch.zeros((*images.shape[:2], LEVELS), dtype=torch.int32, device=images.device)
    levels = images.long()
    return count.scatter_add(2, levels, torch.ones_like(levels, dtype=torch.int32))
