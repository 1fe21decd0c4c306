"""Linear layers fused into one matrix product, and the initialisations of the papers."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module

from headway._compile import constant


class FusedLinear(nn.Linear):
    """Several linear maps of one input in one matrix product; `parts` are their output widths.

    `gain` scales their Xavier start. Queries, keys and values begin at 1/√2, as in fairseq and (by the shape of its
    fused matrix) torch: at 1 a post-norm transformer trains less steadily.
    """

    def __init__(self, width: int, parts: tuple[int, ...], *, bias: bool, gain: float = 1.0) -> None:
        super().__init__(width, sum(parts), bias=bias)
        self.parts, self.gain = parts, gain

    @constant
    def alone(self) -> bool:
        """May what it gives be made elsewhere? Nobody listens here or everywhere, and `forward` is torch's own."""
        here = (self._forward_hooks, self._forward_pre_hooks, self._backward_hooks, self._backward_pre_hooks)
        forwards = (module._global_forward_hooks, module._global_forward_pre_hooks)
        backwards = (module._global_backward_hooks, module._global_backward_pre_hooks)
        if any(here) or any(forwards) or any(backwards):
            return False
        return "forward" not in self.__dict__ and type(self).forward is nn.Linear.forward

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """(…, sum of parts) -> one tensor a part."""
        return torch.split_with_sizes(x, self.parts, -1)

    def then_relu(self, x: Tensor) -> Tensor:
        """max(0, forward(x))."""
        y: Tensor = self(x)
        return y.relu() if y.requires_grad or self._forward_hooks else y.relu_()  # else nobody holds it

    def gelu(self, x: Tensor) -> Tensor:
        """gelu(forward(x)), in fewer passes where that pays and nobody listens to what `forward` gives."""
        from headway.ops import fused_gelu

        if self.bias is not None and fused_gelu.is_faster_for(x, self.bias) and self.alone():
            return fused_gelu.linear_gelu(x, self.weight, self.bias)
        return F.gelu(self(x))


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
def xavier_init(
    module: nn.Module, *, shape: Literal["uniform", "normal"] = "uniform", gain: float | None = None
) -> None:
    """Every linear map Xavier, biases 0; the maps of a fused matrix each by their own shape and, if not given, gain."""
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
