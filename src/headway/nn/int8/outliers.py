"""8-bit layers for activations with outliers, beside which one scale for a whole call would round the rest to nothing.

Three methods, all with the packed 8-bit weight of `Int8Linear`, from the fastest to the most exact:

- rows: every row is divided by its largest number before the product and multiplied by it after, which gives each row a
  scale of its own. A call with one row, a decoder's step, has that anyway.
- smooth: also, column k is divided by s_k = √(a_k/w_k), which the weight is multiplied by (SmoothQuant, Xiao et al.
  2023, with α = ½): a_k is the largest activation of the column as a share of its row's, w_k its largest weight.
- two-part: every row becomes two of 8 bits, the rounded one and, enlarged, what rounding left over. The product reads
  the weight once for both, and activations have 15 bits: all that is lost is what rounding the weight loses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headway.nn.int8.layers import (
    LEVELS,
    MULTIPLY,
    MULTIPLY_SCALED,
    Int8Head,
    Int8Linear,
    LayerChoice,
    reduced,
    whole_numbers,
)
from headway.nn.taps import observed

SMALLEST = 1e-5  # what a column of zeros counts as: a share of a row's largest number, or of the largest weight
TINY = torch.finfo(torch.float32).tiny


class OutlierInt8Linear(Int8Linear):
    """x·weightᵀ + bias by one of the methods above; `factor` (K,) multiplies the columns of the input."""

    factor: Tensor | None
    shift: Tensor | None

    def __init__(self, weight_NK: Tensor, bias_N: Tensor | None, parts: tuple[int, ...], choice: LayerChoice) -> None:
        factor_K = None
        if choice.method == "smooth":
            if weight_NK.is_meta:
                factor_K = torch.empty(weight_NK.shape[1], device="meta")
            else:
                assert choice.peaks is not None
                weight_NK = weight_NK.detach().float()
                largest_K = weight_NK.abs().amax(0)
                largest_K = largest_K.clamp(min=max(SMALLEST * float(largest_K.max()), TINY))
                scale_K = (choice.peaks.clamp(min=SMALLEST) / largest_K).sqrt()
                scale_K /= scale_K.mean()
                weight_NK, factor_K = weight_NK * scale_K, 1 / scale_K
        super().__init__(weight_NK, None, parts)
        # The bias is not part of the product, whose rows are scaled back after it.
        self.register_buffer("shift", None if bias_N is None else bias_N.detach().float())
        self.register_buffer("factor", factor_K)
        self.operation = in_two_parts if choice.method == "two-part" else by_rows

    def forward(self, x: Tensor) -> Tensor:
        """(…, K) -> (…, N)."""
        y = self._multiply(x if self.factor is None else x * self.factor, self.operation)
        return y if self.shift is None else y.add_(self.shift)

    def exact_inputs(self, rows: int, generator: torch.Generator) -> Tensor:
        """Random inputs (rows, K) that quantising does not change: integers, before the division of columns."""
        if rows == 1 and self.operation is by_rows:
            x_RK = super().exact_inputs(rows, generator)
        else:  # each row has a scale of its own, with 0 in the middle of the range
            levels = LEVELS // 2 if reduced() else LEVELS
            x_RK = whole_numbers(-levels, levels, rows, self.in_features, generator)
        return x_RK if self.factor is None else x_RK / self.factor

    def dequantised(self) -> Tensor:
        """The weight (N, K) that the 8-bit one, its scales and the columns' factors stand for."""
        weight_NK = super().dequantised()
        return weight_NK if self.factor is None else weight_NK * self.factor

    def forward_relu(self, x: Tensor) -> Tensor:
        """relu(forward(x))."""
        y: Tensor = self(x)
        return y.relu() if observed(self) else y.relu_()


class OutlierInt8Head(OutlierInt8Linear, Int8Head):
    """The output layer, with a matrix of its own even if it was tied: the embedding stays in float32."""

    def forward(self, x_BTD: Tensor, embedding_VD: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, V); the embedding is not used."""
        return super().forward(x_BTD)


def by_rows(x: Tensor, packed: Any, reduced: bool) -> Tensor:
    """The product with a scale for each row."""
    if x.numel() == x.shape[-1]:
        single: Tensor = MULTIPLY(x, packed, reduced)
        return single
    return scaled_rows(x, packed, reduced)


def scaled_rows(x: Tensor, packed: Any, reduced: bool) -> Tensor:
    """The same also for a single row, which then has the bits it has among others."""
    levels = LEVELS // 2 if reduced else LEVELS
    unit = x.abs().amax(-1, keepdim=True).clamp_(min=TINY).div_(levels)
    y: Tensor = MULTIPLY_SCALED(x / unit, 1.0, levels + 1, packed)
    return y.mul_(unit)


def in_two_parts(x: Tensor, packed: Any, reduced: bool) -> Tensor:
    """The product of each row rounded to whole units, and of what that leaves over in units 2·levels times smaller."""
    levels = LEVELS // 2 if reduced else LEVELS
    unit = x.abs().amax(-1, keepdim=True).clamp_(min=TINY).div_(levels)
    units = x / unit
    whole = units.round()
    rest = units.sub_(whole).mul_(2 * levels)  # at most half a unit: again from -levels to levels
    first, second = MULTIPLY_SCALED(torch.stack([whole, rest]), 1.0, levels + 1, packed).unbind(0)
    y: Tensor = first.add_(second, alpha=0.5 / levels)
    return y.mul_(unit)
