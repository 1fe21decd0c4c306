"""A thousand weights of 0.01 make 10 of 1, then 100, then infinity; what the gradient is; and what LayerNorm does.

Every unit of a layer sums d inputs with the weight θ, so that a layer multiplies by θ·d. The slide multiplies
activations for the gradient of a weight; the derivative of the second layer's output by one weight of the first is θ·x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabCheck, LabFigure, LabOutcome, LabTable, Slide, at_most, equals, within
from headway.plots import lab_figures as draw

LARGEST = torch.finfo(torch.float32).max
TINY = 1e-30  # still a normal number of float32
QUICK_WIDTH, QUICK_LAYERS = 200, 30  # of the network with random weights
SPREAD = 1e-3  # relative differences between inputs: LayerNorm of equal numbers is 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlowUpParameters:
    """A deep network of equal weights."""

    width: int = 1000  # units of a layer
    theta: float = 0.01  # every weight
    layers: int = 100  # of the network

    def __post_init__(self) -> None:
        positive("--width", self.width)
        if not 2 <= self.layers <= 1000:
            raise ConfigError(f"--layers {self.layers}: expected 2 to 1,000")
        if not self.theta > 0:
            raise ConfigError(f"--theta {self.theta}: expected a number above 0")


def layer(x: Tensor, weights: Tensor) -> Tensor:
    """One layer of the slide, without a bias: (…, D) and (D, D) -> (…, D)."""
    return x @ weights.mT


def normalise(x: Tensor) -> Tensor:
    """LayerNorm without gain and bias over the last axis."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-12)


def sizes(parameters: BlowUpParameters) -> list[float]:
    """The value of a unit behind each layer, from inputs of 1, in float32: all units are equal, so one is enough."""
    found, x = [], torch.ones(parameters.width)
    row = torch.full((1, parameters.width), parameters.theta)  # one unit's weights
    for _ in range(parameters.layers):
        x = layer(x, row).expand(parameters.width)
        found.append(float(x[0]))
    return found


def gradients(width: int, theta: float) -> tuple[float, float]:
    """The gradient of f_2 by the weights of layer 1: by one entry, and where all hidden units share one vector."""
    x, second = torch.ones(width, dtype=torch.float64), torch.full((1, width), theta, dtype=torch.float64)
    first = torch.full((width, width), theta, dtype=torch.float64, requires_grad=True)
    (own,) = torch.autograd.grad(layer(layer(x, first), second).sum(), first)
    shared = torch.full((1, width), theta, dtype=torch.float64, requires_grad=True)
    (common,) = torch.autograd.grad(layer(layer(x, shared.expand(width, width)), second).sum(), shared)
    return float(own[0, 0]), float(common[0, 0])


def deep(
    width: int, theta: float, layers: int, generator: torch.Generator, *, with_norm: bool
) -> tuple[list[float], list[float]]:
    """Root mean squares behind each layer of a network of random weights of mean θ, and of the gradient there."""
    first = 1 + SPREAD * torch.randn(width, generator=generator, dtype=torch.float64)
    behind, states = first.requires_grad_(), []
    for _ in range(layers):
        weights = 2 * theta * torch.rand(width, width, generator=generator, dtype=torch.float64)
        behind = layer(behind, weights)
        behind = normalise(behind) if with_norm else behind
        states.append(behind)
    towards = torch.randn(width, generator=generator, dtype=torch.float64)
    back = torch.autograd.grad((behind * towards).sum(), states)
    return [_rms(state) for state in states], [_rms(each) for each in back]


def _rms(x: Tensor) -> float:
    return float(x.detach().square().mean().sqrt())


def run(parameters: BlowUpParameters, seed: int, quick: bool) -> LabOutcome:
    """Sizes forward and back, with and without LayerNorm."""
    width, theta, factor = parameters.width, parameters.theta, parameters.theta * parameters.width
    found, small = sizes(parameters), sizes(replace(parameters, theta=theta / 100))
    own, common = gradients(width, theta)
    random_width = min(QUICK_WIDTH, width) if quick else width
    random_layers = min(QUICK_LAYERS, parameters.layers) if quick else parameters.layers
    random_theta = factor / random_width  # a layer of the quick version multiplies by the same
    curves = {
        with_norm: deep(
            random_width, random_theta, random_layers, torch.Generator().manual_seed(seed), with_norm=with_norm
        )
        for with_norm in (False, True)
    }
    equal = float(normalise(torch.full((width,), factor, dtype=torch.float64)).abs().max())
    shown = [n for n in (1, 2, 3, 10, 38, 39, 100) if n <= parameters.layers]
    checks = [
        equals(f"layer {n}: θ·d to the power of {n}, from ones", found[n - 1], factor**n, 1e-4 * factor**n)
        for n in (1, 2, 3)
        if n <= parameters.layers
    ]
    checks += [*_end(found, factor), *_end(small, factor / 100, "weights of a hundredth: ")]
    checks += [
        equals("gradient of layer 2 by one weight of layer 1, an entry: θ·x", own, theta, 1e-12),
        equals("the same where all units share one vector: d·θ·x", common, factor, 1e-9),
        at_most("LayerNorm: largest distance of a layer's size from 1", max(abs(x - 1) for x in curves[True][0]), 1e-5),
        within(
            "LayerNorm: gradient behind layer 1 over that behind the last",
            curves[True][1][0] / curves[True][1][-1], 0.1, 10.0,
        ),
        at_most("LayerNorm of d equal numbers: nothing is left of them", equal, 1e-6),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"value of a unit, {width} weights of {theta:g}, inputs of 1, float32",
            header=("layer", "value", f"with weights of {theta / 100:g}"),
            rows=[(n, found[n - 1], small[n - 1]) for n in shown],
        ),
        LabTable(
            title=f"root mean square, random weights of mean {random_theta:g}, {random_layers} layers, float64",
            header=("layer", "value", "gradient by its units", "value, LayerNorm", "gradient by its units, LayerNorm"),
            rows=[
                (n, *(curves[norm][side][n - 1] for norm in (False, True) for side in (0, 1)))
                for n in shown
                if n <= random_layers
            ],
            note="The gradient is that of what stands behind the last layer.",
        ),
        LabTable(
            title="derivative of the second layer by a weight of the first",
            header=("what", "value"),
            rows=[
                ("as printed on the slide: 100·10", 1000.0),
                ("one entry of the matrix: θ·x", own),
                ("one vector for all hidden units: d·θ·x", common),
            ],
        ),
    ]
    notes = [
        f"A layer multiplies by θ·d = {factor:g}, or by {factor / 100:g} with the smaller weights: above 1 it explodes,"
        " below 1 it vanishes, and so does the gradient on its way back. LayerNorm sets the size behind every layer to"
        " 1. It needs differences to work on: of equal numbers, as on the slide, it leaves 0."
    ]
    figure = _figure(found, curves)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _end(found: list[float], factor: float, what: str = "") -> list[LabCheck]:
    """Where a layer's size leaves float32: the first infinite layer; or the first one below TINY."""
    if math.isclose(factor, 1, rel_tol=1e-6):
        return [within(f"{what}θ·d = 1: size behind the last layer", found[-1], 0.99, 1.01)]
    if factor < 1:
        there = min(len(found), math.floor(math.log(TINY) / math.log(factor)) + 1)
        return [at_most(f"{what}size behind layer {there}, on its way to 0", found[there - 1], 1.01 * factor**there)]
    expected = math.floor(math.log(LARGEST) / math.log(factor)) + 1
    reached = [n for n, value in enumerate(found, 1) if value == math.inf]
    if expected > len(found):
        return [equals(f"{what}infinite layers of {len(found)}", len(reached), 0)]
    return [equals(f"{what}first layer that is infinite in float32", reached[0] if reached else math.nan, expected)]


def _figure(found: list[float], curves: dict[bool, tuple[list[float], list[float]]]) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.4)
    finite = [value for value in found if 0 < value < math.inf]
    draw.line(left, range(1, len(finite) + 1), finite, "as on the slide, float32", 0, markers=False)
    count = len(curves[True][0])
    at = range(1, count + 1)
    draw.line(left, at, curves[False][0], "random weights", 1, markers=False, dashed=True)
    draw.line(left, at, curves[True][0], "with LayerNorm", 2, markers=False)
    draw.reference(left, LARGEST, "largest float32")
    draw.line(right, at, curves[False][1], "random weights", 1, markers=False, dashed=True)
    draw.line(right, at, curves[True][1], "with LayerNorm", 2, markers=False)
    for axes in (left, right):
        axes.set_yscale("log")
    draw.style(left, "Forward", "layer", "size of a unit (root mean square)", legend="upper left")
    draw.style(right, "Backward, from the last layer", "layer", "gradient (root mean square)", legend="upper right")
    alt = (
        f"Two panels over {count} layers, logarithmic. Forward, the sum of d inputs grows to {found[1]:.4g} behind"
        f" layer 2 and leaves float32 after layer {len(finite)}; with LayerNorm every layer has size 1. Backward, the"
        f" gradient at layer 1 is {curves[False][1][0]:.1e} without and {curves[True][1][0]:.1e} with LayerNorm."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="blow-up",
    chapter=2,
    title="why a sum of a thousand small things explodes",
    claim="A layer multiplies by θ·d (1000 × 0.01 = 10), so that float32 ends at layer 39, while the gradient by one"
    " weight is 0.01 and not 1000 as the slide has it; LayerNorm keeps every layer at size 1.",
    slides=(Slide("000", "Going Deeper 22–25", 736), Slide("001", "Going Deeper 22–25", 733)),
    parameters=BlowUpParameters,
    run=run,
    mechanism=("layer", "normalise"),
    exercise=Exercise(
        function="normalise",
        task="Subtract the mean of the last axis, divide by the root of the mean square that is left; no gain, no"
        " bias.",
        hints=(
            "Both means are over the last axis, with keepdim=True, so that they can be subtracted and divided.",
            "Of d equal numbers nothing is left: add a very small number below the root, or 0/0 is NaN.",
            "F.layer_norm(x, x.shape[-1:], eps=…) does all of it; eps must be far below the mean square.",
        ),
        bugs=(
            PlantedBug(
                right="eps=1e-12",
                wrong="eps=1.0",
                fails="LayerNorm: largest distance",
                hint="Sizes come out below 1: what is added below the root?",
            ),
        ),
    ),
)
