"""The patches a vision transformer reads an image as, as pixels to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.data.image_decoding import Pixels
from headway.nn.patches import PatchKind, Shifted, patch_grid, patchify, shift_diagonally


@dataclass(frozen=True, slots=True)
class ImagePatches:
    """Patches (rows, columns, P, P, C); of shifted patch tokenization also the five copies (5, C, H, W)."""

    patches: Pixels
    copies: Pixels | None


def image_patches(pixels: Pixels, patch: int, kind: PatchKind, mean: Sequence[float]) -> ImagePatches:
    """An image (C, H, W) in patches of `patch` pixels a side; `mean` is the colour (0 to 1) beyond its edges."""
    image = torch.from_numpy(np.array(pixels)).unsqueeze(0)
    grid = patch_grid((image.shape[2], image.shape[3]), patch)
    patches = patchify(image, patch)[0].unflatten(1, (patch, patch, -1)).unflatten(0, grid)
    if not isinstance(kind, Shifted):
        return ImagePatches(patches.numpy(), None)
    outside = 255 * torch.tensor(mean).view(-1, 1, 1)  # what is 0 once the mean is subtracted
    copies = shift_diagonally(image - outside, patch // 2)[0].unflatten(0, (5, -1)) + outside
    return ImagePatches(patches.numpy(), copies.round().to(torch.uint8).numpy())
