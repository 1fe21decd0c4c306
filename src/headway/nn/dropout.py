"""Dropout with few random numbers on a CPU, and dropout of whole residual branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import probability
from headway.errors import ConfigError

LEVELS = 2**16  # of 16 random bits


class Dropout(nn.Module):
    """In training set each element to zero with probability p, and scale the others by 1/(1 - p).

    On a CPU torch draws a random number for every element, which is a tenth of a small model's step. Here each element
    uses 16 bits of a random 64-bit number: p is rounded to a multiple of 1/65,536, and the scale is that of the rounded
    p, so that the expectation is exact.
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


Growth = Literal["linear", "constant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StochasticDepth:
    """How often a layer's residual branches are dropped: from 0 in the first layer to `rate` in the last, or constant.

    Huang et al. 2016 and timm grow it linearly; the code of Lee et al. 2021 has one rate for all layers.
    """

    rate: float = 0.0  # the chance to leave a branch out, at least 0 and below 1
    growth: Growth = "linear"  # linear: from 0 in the first layer to the rate in the last; constant: the rate in all

    def __post_init__(self) -> None:
        probability("rate", self.rate)
        if self.growth not in get_args(Growth):
            raise ConfigError(f"growth={self.growth!r}, allowed: {', '.join(get_args(Growth))}")

    def rates(self, layers: int) -> list[float]:
        """One for each layer."""
        if self.growth == "constant" or layers == 1:
            return [self.rate] * layers
        return [self.rate * layer / (layers - 1) for layer in range(layers)]


class DropPath(nn.Module):
    """In training set a whole sample to zero with probability p, and scale the other samples by 1/(1 - p)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """The same shape; the first dimension is the batch."""
        if not self.training or self.p == 0.0:
            return x
        # In 32 bits: in 16 the scale would be rounded, and with it the expectation.
        kept = F.dropout(torch.ones(len(x), *[1] * (x.ndim - 1), device=x.device), self.p)
        return (x * kept).to(x.dtype)

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"p={self.p}"
