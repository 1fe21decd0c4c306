"""8-bit layers that give every row a scale of its own, so that no row changes what another computes.

A plain `Int8Linear` has one scale a call: the largest number of any row decides how finely all are rounded. Here each
row is divided by its own largest number before the product. The sums of 8-bit products are exact integers, so that a
row has the same bits in every batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headway.nn.int8.layers import Int8Head, Int8Linear, fbgemm, pack_weight, supported
from headway.nn.int8.outliers import OutlierInt8Linear, by_rows, scaled_rows
from headway.nn.taps import observed


class RowInt8Linear(Int8Linear):
    """An 8-bit layer with the weight, the scales and the bias of another, and a scale for each row of its input."""

    def __init__(self, layer: Int8Linear) -> None:
        nn.Module.__init__(self)
        for name in ("weight", "scale", "bias"):
            self.register_buffer(name, getattr(layer, name))
        self.out_features, self.in_features, self.parts = layer.out_features, layer.in_features, layer.parts
        self.packed_weight: Any = None

    def forward(self, x: Tensor) -> Tensor:
        """(…, K) -> (…, N)."""
        y = self._multiply(x, scaled_rows)
        return y if self.bias is None or not _in_8_bits(x) else y.add_(self.bias)

    def forward_relu(self, x: Tensor) -> Tensor:
        """relu(forward(x))."""
        y: Tensor = self(x)
        return y.relu() if observed(self) else y.relu_()

    def pack(self) -> Any:
        """The weight in the engine's format, without the bias: rows are scaled back before it is added."""
        return pack_weight(self.weight, self.scale, None)


class RowInt8Head(RowInt8Linear, Int8Head):
    """The output layer likewise."""

    def forward(self, x_BTD: Tensor, embedding_VD: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, V); the embedding is not used."""
        return RowInt8Linear.forward(self, x_BTD)


def scale_per_row(model: nn.Module) -> None:
    """Give every 8-bit layer of a model, in place, a scale for each row; one in float32 stays as it is."""
    for name, layer in list(model.named_modules()):
        if isinstance(layer, OutlierInt8Linear):
            layer.operation = scaled_rows if layer.operation is by_rows else layer.operation
        elif isinstance(layer, Int8Linear) and not isinstance(layer, RowInt8Linear):
            place, _, last = name.rpartition(".")
            made = (RowInt8Head if isinstance(layer, Int8Head) else RowInt8Linear)(layer)
            setattr(model.get_submodule(place), last, made)
            if supported():
                with fbgemm():
                    made.packed_weight = made.pack()


def _in_8_bits(x: Tensor) -> bool:
    """Whether the product was of 8-bit numbers; the one in float32 adds the bias itself."""
    return x.is_cpu and x.dtype == torch.float32 and supported()
