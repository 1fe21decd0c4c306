"""Compare each linear layer in 8 bits with the layer in float32 that it stands for.

The choice of layers (`headway.nn.int8.choice`) may go around a layer that is wrong, so that the outputs of the whole
model do not show it. Therefore every layer is compared on its own, both as a plain 8-bit layer and by the method that
was chosen for it: its weights with the exact ones, to within rounding, and its product with that of the dequantised
weights, on inputs that are not rounded, to within float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.int8 import Int8Linear
from headway.nn.int8.layers import LEVELS, exact_weights, int8_layer, linear_layers

PRODUCT = 1e-4  # of an output's largest product: sums of integers are exact, only scales and bias are rounded
STEP = 1.0  # of a weight, the largest difference: rounding needs half of it
ROWS = (1, 5)  # of a call: a decoder's step has one, which some methods treat differently
TINY = torch.finfo(torch.float32).tiny


def int8_layers(model: nn.Module, chosen: nn.Module) -> tuple[float, str]:
    """The largest error of a layer as a multiple of what is allowed, and the name of that layer.

    `model` is in float32, `chosen` is the same model in 8 bits. Raises ValueError if there is no linear layer.
    """
    parts = dict(chosen.named_modules())
    errors: dict[str, float] = {}
    for name, layer in linear_layers(model).items():
        weight_NK, bias_N = exact_weights(model, layer)
        for each in (int8_layer(model, layer), parts[name]):
            if isinstance(each, Int8Linear):  # one that is chosen to be in float32 has nothing to compare
                found = _error(each, weight_NK.detach().float(), bias_N)
                errors[name] = max(errors.get(name, 0.0), found)
    if not errors:
        raise ValueError("the model has no linear layer")
    worst = max(errors, key=lambda name: errors[name])
    return errors[worst], worst


def _error(layer: Int8Linear, weight_NK: Tensor, bias_N: Tensor | None) -> float:
    """The largest error of the weights and of the products of an 8-bit layer, as a multiple of what is allowed."""
    factor: Tensor | None = getattr(layer, "factor", None)
    stored_NK = weight_NK if factor is None else weight_NK / factor  # what was rounded
    step_N1 = stored_NK.abs().amax(1, keepdim=True).clamp(min=TINY) / LEVELS
    rounded_NK = layer.weight.float() * layer.scale[:, None]
    errors = [((rounded_NK - stored_NK).abs() / step_N1).max() / STEP]
    generator = torch.Generator().manual_seed(0)
    for rows in ROWS:
        x_RK = layer.exact_inputs(rows, generator)
        bias = None if bias_N is None else bias_N.detach().double()
        exact_RN = F.linear(x_RK.double(), layer.dequantised().double(), bias)
        size_N = F.linear(x_RK.double().abs(), layer.dequantised().double().abs(), None if bias is None else bias.abs())
        size_N = size_N.amax(0).clamp(min=TINY) / layer.in_features**0.5  # about that of the product
        for found, expected in ((layer(x_RK), exact_RN), (layer.forward_relu(x_RK), exact_RN.relu())):
            errors.append(((found - expected).abs() / size_N).max() / PRODUCT)
    return float(torch.stack([error.double() for error in errors]).nan_to_num(nan=torch.inf).max())


@contextmanager
def inputs_in_8_bits(model: nn.Module) -> Iterator[None]:
    """Round the inputs of all linear layers of a model in float32 to 8 bits: what this does to it is not a bug."""
    with ExitStack() as stack:
        for layer in linear_layers(model).values():
            stack.callback(layer.register_forward_pre_hook(_rounded).remove)
        yield


def _rounded(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of a call with the first one on 256 levels between its least and its largest number, and 0."""
    x, *others = inputs
    step = (x.amax().clamp(min=0) - x.amin().clamp(max=0)).clamp(min=TINY) / (2 * LEVELS + 1)
    return torch.round(x / step) * step, *others
