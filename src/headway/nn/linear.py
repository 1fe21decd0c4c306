"""Linear layers fused into one matrix product, and the initialisations of the papers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FusedLinear(nn.Linear):
    """Several linear maps of one input in one matrix product; `parts` are their output widths."""

    def __init__(self, width: int, parts: tuple[int, ...], *, bias: bool) -> None:
        super().__init__(width, sum(parts), bias=bias)
        self.parts = parts

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """(…, sum of parts) -> one tensor a part."""
        parts: tuple[Tensor, ...] = x.split(self.parts, -1)
        return parts


@torch.no_grad()
def normal_init(module: nn.Module, std: float) -> None:
    """Every matrix and table N(0, std), every bias 0: GPT-2's and BERT's start. Norms keep gain 1, shift 0."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=std)
            elif name == "bias":
                nn.init.zeros_(parameter)


@torch.no_grad()
def xavier_init(module: nn.Module) -> None:
    """Every linear map Xavier-uniform, biases 0; the maps of a fused matrix each by their own shape."""
    for part in module.modules():
        if not isinstance(part, nn.Linear):
            continue
        maps = part.weight.split(part.parts) if isinstance(part, FusedLinear) else (part.weight,)
        for weight in maps:
            nn.init.xavier_uniform_(weight)
        if part.bias is not None:
            nn.init.zeros_(part.bias)
