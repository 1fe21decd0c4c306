"""Which linear layers of a model can use plain 8-bit products, by measured error.

Plain products are taken for the whole model if they change its outputs little enough. Otherwise each layer's methods
are tried on its own input, and each layer takes the fastest whose relative error is below a bound: the largest bound
with which the outputs of the whole model change little enough.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headway.nn.int8.layers import (
    LEVELS,
    Int8Linear,
    LayerChoice,
    Method,
    int8_layer,
    linear_layers,
    pack,
    quantise,
    reduced,
)

METHODS: tuple[Method, ...] = ("rows", "smooth", "two-part")  # from the fastest to the most exact
BOUNDS = (0.05, 0.035, 0.025, 0.018, 0.015, 0.012, 0.009, 0.006)  # of a layer's relative error
# An 8-bit product of a sound layer is nearer than this by the most exact method. One that is not is a fault: it is not
# hidden by a layer in float32, so that `verify` finds it, and `auto` does not take it.
FAULT = 0.1
FAULTY_ROUNDING = 4.0  # times the error that rounding explains: a plain product that is further off is a fault

Forward = Callable[[nn.Module], Tensor]  # the outputs of a model, or of its 8-bit form, on fixed inputs
Rise = Callable[[Tensor, Tensor], float]  # of the loss, from the exact outputs to others
Errors = dict[str, dict[Method | Literal["plain"], float]]  # by layer and method


@dataclass(frozen=True, slots=True)
class Int8Choice:
    """The layers that are not plain, by name, and by how much the loss rises with them."""

    layers: Mapping[str, LayerChoice]
    rise: float


@torch.no_grad()
def choose(model: nn.Module, forward: Forward, rise: Rise, enough: float) -> tuple[nn.Module, Int8Choice]:
    """The model in 8 bits and the choice of its layers, with which the loss rises by `enough` at most if it can.

    The model itself stays as it is.
    """
    peaks: dict[str, Tensor] = {}
    exact = _watched(model, lambda name, _, x_RK, __: _note_peaks(peaks, name, x_RK), forward)
    found, best = _tried(model, {}, exact, forward, rise)
    if best.rise <= enough:
        return found, best
    errors, first, last = layer_errors(model, peaks, forward), 0, len(BOUNDS)
    while first < last:  # a smaller bound gives a smaller rise: the largest that is small enough, by bisection
        middle = (first + last) // 2
        methods = within(errors, BOUNDS[middle])
        layers = {name: LayerChoice(method, peaks[name]) for name, method in methods.items()}
        other, choice = _tried(model, layers, exact, forward, rise)
        fits = choice.rise <= enough
        if fits or choice.rise < best.rise:
            found, best = other, choice
        first, last = (first, middle) if fits else (middle + 1, last)
    return found, best


def within(errors: Errors, bound: float) -> dict[str, Method]:
    """The fastest method of each layer whose error is at most `bound`; layers that can be plain are left out."""
    chosen: dict[str, Method] = {}
    for name, by_method in errors.items():
        least = min(by_method, key=lambda method: by_method[method])
        last: Method | Literal["plain"] = "fp32" if by_method[least] <= FAULT else least
        method = next((each for each, error in by_method.items() if error <= bound), last)
        if method != "plain":
            chosen[name] = method
    return chosen


def layer_errors(model: nn.Module, peaks: Mapping[str, Tensor], forward: Forward) -> Errors:
    """The relative error of each layer by each 8-bit method on its exact input: the root mean square over rows.

    Relative to the row, because the rows with outliers, often one per text, would hide the others.
    """
    errors: Errors = {}

    def measure(name: str, layer: nn.Module, x_RK: Tensor, y_RN: Tensor) -> None:
        by_method = errors.setdefault(name, dict.fromkeys(("plain", *METHODS), 0.0))
        size_R = y_RN.norm(dim=-1).clamp(min=torch.finfo(torch.float32).tiny)
        for method, before in by_method.items():
            choice = None if method == "plain" else LayerChoice(method, peaks[name])
            quick = int8_layer(model, layer, choice)
            off_RN = quick(x_RK) - y_RN
            error = float((off_RN.norm(dim=-1) / size_R).square().mean().sqrt())
            by_method[method] = max(before, error if math.isfinite(error) else math.inf)
            if choice is None and not float(off_RN.square().mean()) <= (FAULTY_ROUNDING**2) * _rounding(quick, x_RK):
                errors[name] = dict.fromkeys(by_method, math.inf)  # no other method is to hide it
                return

    _watched(model, measure, forward)
    return errors


def _rounding(plain: Int8Linear, x_RK: Tensor) -> float:
    """The mean square error that rounding explains: of activations with one scale, and of weights with one a row.

    The error of a rounded number is uniform over a step, whose variance is a twelfth of its square.
    """
    step = float(x_RK.amax().clamp(min=0) - x_RK.amin().clamp(max=0)) / (LEVELS if reduced() else 2 * LEVELS)
    activations = step**2 * float(plain.dequantised().square().sum(1).mean())
    weights = float(plain.scale.square().mean() * x_RK.square().sum(1).mean())
    return (activations + weights) / 12


def _tried(
    model: nn.Module, layers: Mapping[str, LayerChoice], exact: Tensor, forward: Forward, rise: Rise
) -> tuple[nn.Module, Int8Choice]:
    """The model with this choice of layers, and what it costs. Weights that stay in float32 are shared, not copied."""
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    quick = copy.deepcopy(model, shared)
    quantise(quick, layers)
    pack(quick)
    cost = rise(exact, forward(quick))
    return quick, Int8Choice(layers, cost if math.isfinite(cost) else math.inf)


def _watched(model: nn.Module, watch: Callable[[str, nn.Module, Tensor, Tensor], None], forward: Forward) -> Tensor:
    """The outputs of the model; `watch` is given the name, the layer, the input and the output of each linear layer."""

    def hook(name: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        return lambda layer, inputs, y: watch(name, layer, inputs[0].flatten(0, -2), y.flatten(0, -2))

    handles = [layer.register_forward_hook(hook(name)) for name, layer in linear_layers(model).items()]
    try:
        return forward(model)
    finally:
        for handle in handles:
            handle.remove()


def _note_peaks(peaks: dict[str, Tensor], name: str, x_RK: Tensor) -> None:
    largest_R1 = x_RK.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    peaks_K = (x_RK / largest_R1).abs().amax(0)
    peaks[name] = torch.maximum(peaks[name], peaks_K) if name in peaks else peaks_K
