"""Convolutions with BatchNorm, residual blocks of them, and sequences of blocks that halve the resolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def convolution(given: int, width: int, *, kernel: int, stride: int) -> nn.Sequential:
    """A convolution that keeps the size (or halves it) and its BatchNorm; no bias, which BatchNorm would cancel."""
    convolution = nn.Conv2d(given, width, kernel, stride=stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(convolution, nn.BatchNorm2d(width))


class Residual(nn.Module):
    """relu(x + f(x)) with two 3 x 3 convolutions in f; x is projected by a 1 x 1 one where the shape changes."""

    def __init__(self, given: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.first = convolution(given, width, kernel=3, stride=stride)
        self.second = convolution(width, width, kernel=3, stride=1)
        same = stride == 1 and given == width
        self.skip = None if same else convolution(given, width, kernel=1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, width, height / stride, width / stride)."""
        y = self.second(self.first(x).relu())
        return (y + (x if self.skip is None else self.skip(x))).relu()  # type: ignore[no-any-return]


def halving(channels: int, widths: tuple[int, ...]) -> nn.Sequential:
    """Residual blocks that each halve height and width, rounded up: (B, C, height, width) -> (B, last width, …)."""
    return nn.Sequential(*(Residual(a, b, stride=2) for a, b in zip((channels, *widths), widths, strict=False)))


def channels_last(images: Tensor) -> Tensor:
    """The same images (B, C, height, width), on a CPU in channels-last layout, which its convolutions prefer."""
    return images.contiguous(memory_format=torch.channels_last) if images.device.type == "cpu" else images
