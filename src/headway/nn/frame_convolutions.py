"""The convolutions that shorten a spectrogram before a transformer reads it (Radford et al. 2023, section 2.2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KERNEL = 3  # frames


class FrameConvolutions(nn.Module):
    """Convolutions over time with GELU, of a kernel of 3 frames: (B, S, bands) -> (B, S / all strides, D).

    What lies behind a sound is zero before each of them, as if the sound stood alone, so that padding changes nothing.
    """

    def __init__(self, bands: int, width: int, strides: tuple[int, ...]) -> None:
        super().__init__()
        self.strides = strides
        given = (bands, *[width] * (len(strides) - 1))
        self.layers = nn.ModuleList(
            nn.Conv1d(channels, width, KERNEL, stride=stride, padding=KERNEL // 2)
            for channels, stride in zip(given, strides, strict=True)
        )

    def forward(self, frames_BSM: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Frames (B, S, bands) and how many of each are real -> vectors (B, T, D), and how many of those are."""
        x = frames_BSM.mT
        for layer, stride in zip(self.layers, self.strides, strict=True):
            x = F.gelu(layer(_cut(x, lengths_B)))
            lengths_B = None if lengths_B is None else shortened(lengths_B, (stride,))
        return _cut(x, lengths_B).mT, lengths_B


def shortened(frames: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Numbers of frames (…) -> numbers of vectors (…): each stride divides, rounded up."""
    for stride in strides:
        frames = (frames - 1) // stride + 1
    return frames


def _cut(x_BDS: Tensor, lengths_B: Tensor | None) -> Tensor:
    """The same with zeros from each row's length on."""
    if lengths_B is None:
        return x_BDS
    real = torch.arange(x_BDS.shape[-1], device=x_BDS.device) < lengths_B.unsqueeze(-1)
    return x_BDS * real.unsqueeze(1).to(x_BDS.dtype)
