"""Images as sequences: patches as tokens, shifted or convolved; position embeddings for another image size.

Patches and resizing: Dosovitskiy et al. 2021 (ViT), section 3. Shifted patches: Lee et al. 2021, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError, ShapeError
from headway.nn.convolutions import channels_last, halving
from headway.nn.norms import FeatureNorm

Grid = tuple[int, int]  # rows and columns: of pixels, or of patches


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """The pixels of each patch through one linear layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted:
    """Shifted Patch Tokenization (Lee et al. 2021): the image with four copies moved by half a patch diagonally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """The feature map of a small residual network as tokens (Dosovitskiy et al. 2021, section 3.1)."""

    widths: tuple[int, ...] = (24, 48, 96)  # channels of each block; every block halves the resolution

    def __post_init__(self) -> None:
        for width in self.widths:
            positive("widths", width)


PatchKind = Patches | Shifted | Hybrid


def check_images(images: Tensor, channels: int) -> None:
    """Raise ShapeError unless images are (B, C, height, width) numbers with these channels and at least a pixel."""
    if images.ndim != 4 or images.shape[1] != channels:
        raise ShapeError(f"images have shape {tuple(images.shape)}, expected (B, {channels}, height, width)")
    if not images.is_floating_point():
        raise ShapeError(f"images are {images.dtype}, expected floating point, normalised")
    if not images.shape[2] or not images.shape[3]:
        raise ShapeError(f"images have shape {tuple(images.shape)}, expected at least one pixel")


def patch_grid(image: Grid, patch: int) -> Grid:
    """Rows and columns of patches. Raises ConfigError if they do not fill the image."""
    if image[0] % patch or image[1] % patch:
        raise ConfigError(f"an image of {image[0]} x {image[1]} pixels is not filled by patches of {patch} x {patch}")
    return image[0] // patch, image[1] // patch


def patchify(images: Tensor, patch: int) -> Tensor:
    """(B, C, height, width) -> (B, T, P·P·C): patches row by row, inside each the pixels row by row, channels last."""
    rows, columns = patch_grid((images.shape[2], images.shape[3]), patch)
    x: Tensor = images.unflatten(3, (columns, patch)).unflatten(2, (rows, patch))  # B C rows P columns P
    return x.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def shift_diagonally(images: Tensor, by: int) -> Tensor:
    """(B, C, height, width) -> (B, 5·C, height, width): and copies from left-up, right-up, left-down, right-down.

    The copy from left-up has at (y, x) the pixel (y - by, x - by) of the image, and zeros outside of it.
    """
    height, width = images.shape[2:]
    padded = F.pad(images, (by, by, by, by))
    starts = [(y, x) for y in (0, 2 * by) for x in (0, 2 * by)]
    return torch.cat([images, *(padded[:, :, y : y + height, x : x + width] for y, x in starts)], 1)


class PatchEmbedding(nn.Module):
    """Images (B, C, height, width) -> tokens (B, T, D); plain patches are a convolution with kernel = stride = P."""

    def __init__(self, kind: PatchKind, *, patch: int, channels: int, width: int, norm: FeatureNorm) -> None:
        super().__init__()
        self.patch = patch
        if isinstance(kind, Hybrid) and 2 ** len(kind.widths) != patch:
            halved = 2 ** len(kind.widths)
            raise ConfigError(f"patch={patch}: {len(kind.widths)} blocks need patch={halved}")
        self.convolutions = halving(channels, kind.widths) if isinstance(kind, Hybrid) else None
        self.shift = patch // 2 if isinstance(kind, Shifted) else 0
        if isinstance(kind, Shifted) and not self.shift:
            raise ConfigError(f"patch={patch}: shifted patches move by half a patch, which needs at least 2 pixels")
        features = patch * patch * channels * (5 if self.shift else 1)
        if isinstance(kind, Hybrid):
            features = (channels, *kind.widths)[-1]
        self.norm = norm.build(features) if self.shift else None
        self.projection = nn.Linear(features, width)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, T, D)."""
        if self.convolutions is not None:
            placed: Tensor = self.projection(self.convolutions(channels_last(images)).flatten(2).mT)
            return placed
        if self.shift:
            images = shift_diagonally(images, self.shift)
        x = patchify(images, self.patch)
        tokens: Tensor = self.projection(x if self.norm is None else self.norm(x))
        return tokens


def from_convolution(kernel: Tensor) -> Tensor:
    """The kernel of a patch convolution (D, C, P, P) as the matrix of `PatchEmbedding` (D, P·P·C)."""
    return kernel.permute(0, 2, 3, 1).flatten(1)


def to_convolution(matrix: Tensor, patch: int) -> Tensor:
    """The matrix of `PatchEmbedding` (D, P·P·C) as the kernel of a patch convolution (D, C, P, P)."""
    kernel: Tensor = matrix.unflatten(1, (patch, patch, -1))
    return kernel.permute(0, 3, 1, 2)


def resize_grid(positions_TD: Tensor, before: Grid, after: Grid) -> Tensor:
    """Position embeddings of one grid of patches, resized to another: (T, D) -> (T', D), bicubic.

    Rows before those of the grid (the class token's) are unchanged.
    """
    if before == after:
        return positions_TD
    extra = positions_TD.shape[0] - before[0] * before[1]
    if extra < 0:
        raise ShapeError(f"{positions_TD.shape[0]} positions are too few for a grid of {before[0]} x {before[1]}")
    exact = torch.promote_types(positions_TD.dtype, torch.float32)
    kept, grid = positions_TD[:extra], positions_TD[extra:].to(exact).unflatten(0, before)
    grid = F.interpolate(grid.permute(2, 0, 1).unsqueeze(0), size=after, mode="bicubic", align_corners=False)
    return torch.cat([kept, grid[0].flatten(1).mT.to(kept.dtype)])
