"""Linear layers fused into one matrix product, with their activation where that saves a pass; initialisations."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway._compile import constant
from headway.config import not_negative
from headway.nn.taps import observed


class FusedLinear(nn.Linear):
    """Several linear maps of one input in one matrix product; `parts` are their output widths.

    `gain` scales their Xavier initialisation. Queries, keys and values use 1/√2, as in fairseq and (by the shape of its
    fused matrix) torch: with 1 a post-norm transformer trains less steadily.
    """

    def __init__(self, width: int, parts: tuple[int, ...], *, bias: bool, gain: float = 1.0) -> None:
        super().__init__(width, sum(parts), bias=bias)
        self.parts, self.gain = parts, gain

    @constant
    def may_be_fused(self) -> bool:
        """True if no hooks are registered and `forward` is torch's own, so that a fused path may bypass it."""
        return not observed(self) and "forward" not in self.__dict__ and type(self).forward is nn.Linear.forward

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """(…, sum of parts) -> one tensor for each part."""
        return torch.split_with_sizes(x, self.parts, -1)

    def forward_relu(self, x: Tensor) -> Tensor:
        """relu(forward(x)), in place where neither autograd nor a hook holds the product."""
        y: Tensor = self(x)
        return y.relu() if y.requires_grad or not self.may_be_fused() else y.relu_()

    def forward_gelu(self, x: Tensor, *, tanh: bool = False) -> Tensor:
        """gelu(forward(x)), in fewer passes over memory where that is faster and no hook reads the product."""
        from headway.ops import fused_gelu

        if self.bias is not None and fused_gelu.is_faster_for(x, self.bias) and self.may_be_fused():
            return fused_gelu.linear_gelu(x, self.weight, self.bias, tanh=tanh)
        return F.gelu(self(x), approximate="tanh" if tanh else "none")


def linear_relu(layer: nn.Module, x: Tensor) -> Tensor:
    """relu(layer(x)), by the layer's own fused operation if it has one."""
    fused = getattr(layer, "forward_relu", None)
    y: Tensor = F.relu(layer(x)) if fused is None else fused(x)
    return y


def linear_gelu(layer: nn.Module, x: Tensor) -> Tensor:
    """gelu(layer(x)), fused for a `FusedLinear`."""
    return layer.forward_gelu(x) if isinstance(layer, FusedLinear) else F.gelu(layer(x))


def linear_gelu_tanh(layer: nn.Module, x: Tensor) -> Tensor:
    """gelu(layer(x)) approximated by tanh, fused for a `FusedLinear`."""
    if isinstance(layer, FusedLinear):
        return layer.forward_gelu(x, tanh=True)
    return F.gelu(layer(x), approximate="tanh")


@torch.no_grad()
def normal_init(module: nn.Module, std: float) -> None:
    """Every matrix and table N(0, std), every bias 0, as GPT-2 and BERT begin. Norms keep gain 1 and shift 0."""
    not_negative("init_std", std)
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=std)
            elif name == "bias":
                nn.init.zeros_(parameter)


@torch.no_grad()
def xavier_init(
    module: nn.Module, *, shape: Literal["uniform", "normal"] = "uniform", gain: float | None = None
) -> None:
    """Every linear map Xavier, biases 0; each part of a fused matrix by its own shape and, unless given, its gain."""
    draw = nn.init.xavier_uniform_ if shape == "uniform" else nn.init.xavier_normal_
    for part in module.modules():
        if not isinstance(part, nn.Linear):
            continue
        if isinstance(part, FusedLinear):
            for weight in part.weight.split(part.parts):
                draw(weight, part.gain if gain is None else gain)
        else:
            draw(part.weight)
        if part.bias is not None:
            nn.init.zeros_(part.bias)
