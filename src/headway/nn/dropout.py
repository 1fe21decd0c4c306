"""Dropout that does not wait for its random numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16  # of 16 random bits


class Dropout(nn.Module):
    """Zero each number with probability p while training, and scale the others by 1/(1 - p).

    On a CPU torch draws a number for every element, which is a tenth of a small model's step. There 16 bits of one
    drawn 64-bit number decide each element, so that p is met to the nearest 1/65,536, and the scale is that of the p
    that is met: the expectation is exact.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        dropped = round(self.p * LEVELS)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        # Signed: the lowest `dropped` of the levels from -32,768 on.
        keep = words.view(torch.int16)[: x.numel()] >= dropped - LEVELS // 2
        scaled = keep.to(x.dtype).mul_(LEVELS / (LEVELS - dropped))
        return x * scaled.view(x.shape)

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"p={self.p}"
