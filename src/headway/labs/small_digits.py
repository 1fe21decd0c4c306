"""Digits of 3 × 5 pixels somewhere in a small image, with noise: what the labs on images learn. It is not a lab."""

from __future__ import annotations

import torch
from torch import Tensor

HEIGHT, WIDTH = 5, 3
FONT = (  # of each digit, row by row
    "### #.# #.# #.# ###", ".#. ##. .#. .#. ###", "### ..# ### #.. ###", "### ..# ### ..# ###", "#.# #.# ### ..# ..#",
    "### #.. ### ..# ###", "### #.. ### #.# ###", "### ..# .#. .#. .#.", "### #.# ### #.# ###", "### #.# ### ..# ###",
)  # fmt: skip
GLYPHS = torch.tensor([[[pixel == "#" for pixel in row] for row in digit.split()] for digit in FONT]).float()


def digits(count: int, side: int, generator: torch.Generator, *, noise: float = 0.15) -> tuple[Tensor, Tensor]:
    """`count` grey images (N, 1, side, side), the digit at a random place and of random brightness; classes (N,)."""
    labels = torch.randint(10, (count,), generator=generator)
    top = torch.randint(side - HEIGHT + 1, (count,), generator=generator)
    left = torch.randint(side - WIDTH + 1, (count,), generator=generator)
    ink = 0.6 + 0.4 * torch.rand(count, 1, 1, generator=generator)
    images = noise * torch.randn(count, side, side, generator=generator)
    rows = (top[:, None] + torch.arange(HEIGHT))[:, :, None]
    columns = (left[:, None] + torch.arange(WIDTH))[:, None]
    images[torch.arange(count)[:, None, None], rows, columns] += ink * GLYPHS[labels]
    return images.unsqueeze(1), labels
