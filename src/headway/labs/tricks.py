"""The tricks of training: how to initialise, which optimiser, decay, warm-up; each against its formula.

Every formula is evaluated by hand beside headway's own parts: He's and Glorot's variance (He et al. 2015, section 2.2;
Glorot and Bengio 2010, section 4.2), momentum and Adam (Kingma and Ba 2015, algorithm 1), decoupled decay (Loshchilov
and Hutter 2019, section 2), and the schedule of Vaswani et al. 2017, section 5.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, progress
from headway.plots import lab_figures as draw
from headway.training.optimisers import Adam, AdamW, Optimiser, Sgd, build_optimisers
from headway.training.schedules import Noam

RATE, DECAY = 1e-2, 0.1
EPS = 1e-12  # small beside any gradient here, so that the first step has the length of the rate
BASE_WIDTH, WARMUP = 512, 4000  # of the base model of Vaswani et al.
STARTS: dict[str, Callable[[int], float]] = {  # standard deviation of a weight by fan-in
    "torch's default": lambda fan: 1 / math.sqrt(3 * fan),
    "Glorot": lambda fan: 1 / math.sqrt(fan),
    "He": lambda fan: math.sqrt(2 / fan),
}
FACTORS = {"torch's default": 1 / 6, "Glorot": 1 / 2, "He": 1.0}  # of the mean square, by a relu layer: d·Var(w)/2
INPUTS = 64
QUICK_STEPS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TricksParameters:
    """The network whose initialisation is measured, and how long the optimisers are compared."""

    width: int = 256  # units of a layer
    layers: int = 50  # with relu behind each
    steps: int = 300  # of each optimiser

    def __post_init__(self) -> None:
        positive("--width", self.width, least=16)
        positive("--layers", self.layers)
        positive("--steps", self.steps)


def variances(start: Callable[[int], float], width: int, layers: int, generator: torch.Generator) -> list[float]:
    """The mean square behind each relu layer, relative to that of the inputs."""
    x = torch.randn(INPUTS, width, generator=generator, dtype=torch.float64)
    before, found = float(x.square().mean()), []
    for _ in range(layers):
        weights = start(width) * torch.randn(width, width, generator=generator, dtype=torch.float64)
        x = (x @ weights).relu()
        found.append(float(x.square().mean()) / before)
    return found


def spread(width: int, layers: int) -> float:
    """How far the geometric mean of a layer's factor may be from its expectation, relatively.

    Behind d random relu units the mean square has a relative variance of 5/d (E (relu z)⁴ = 3/2 for z of variance 1,
    over the square of its mean 1/2, less 1), so that its logarithm is 5/(2d) low in the mean; the bound is at four
    deviations.
    """
    return 2.5 / width + 4 * math.sqrt(5 / (width * layers))


def one_parameter(config: Optimiser, start: Tensor, gradients: list[Tensor], rate: float) -> Tensor:
    """A weight matrix after these gradients, by headway's optimiser."""
    module = nn.Linear(start.shape[1], start.shape[0], bias=False, dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(start)
    optimisers = build_optimisers(config, module)
    for group in (group for optimiser in optimisers for group in optimiser.param_groups):
        group["lr"] = rate
    for gradient in gradients:
        module.weight.grad = gradient.clone()
        for optimiser in optimisers:
            optimiser.step()
    return module.weight.detach()


def adam_by_hand(start: Tensor, gradients: list[Tensor], rate: float, decay: float = 0.0) -> Tensor:
    """Kingma and Ba's algorithm 1 with β = (0.9, 0.999), and decoupled decay."""
    first, second, weight = torch.zeros_like(start), torch.zeros_like(start), start.clone()
    for step, gradient in enumerate(gradients, 1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient.square()
        weight = weight * (1 - rate * decay)
        weight = weight - rate * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + EPS)
    return weight


def valley(optimiser: str, steps: int) -> list[float]:
    """The loss by step in a narrow valley, 1/2 (x² + 100 y²) from (1, 1), at a rate that SGD just bears."""
    curvature, place = torch.tensor([1.0, 100.0], dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    speed, first, second = torch.zeros(2).double(), torch.zeros(2).double(), torch.zeros(2).double()
    found = []
    for step in range(1, steps + 1):
        found.append(float((curvature * place.square()).sum() / 2))
        gradient = curvature * place
        if optimiser == "Adam":
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient.square()
            place = place - 0.05 * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
        else:
            speed = (0.9 if optimiser == "momentum" else 0.0) * speed + gradient
            place = place - 0.015 * speed
    return found


def run(parameters: TricksParameters, seed: int, quick: bool) -> LabOutcome:
    """Initialisation by depth, optimisers against their formulas, the valley, warm-up."""
    generator = torch.Generator().manual_seed(seed)
    progress("initialisation", 0, 2)
    curves = {name: variances(start, parameters.width, parameters.layers, generator) for name, start in STARTS.items()}
    progress("optimisers", 1, 2)
    start = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    gradients = [torch.randn(4, 4, generator=generator, dtype=torch.float64) for _ in range(5)]
    adam = Adam(beta1=0.9, beta2=0.999, eps=EPS)
    adamw = AdamW(beta1=0.9, beta2=0.999, eps=EPS, decay=DECAY)
    first = one_parameter(adam, start, gradients[:1], RATE)
    signs = float((first - (start - RATE * gradients[0].sign())).abs().max()) / RATE
    by_hand = float((one_parameter(adam, start, gradients, RATE) - adam_by_hand(start, gradients, RATE)).abs().max())
    decoupled = one_parameter(adamw, start, gradients, RATE)
    decayed = float((decoupled - adam_by_hand(start, gradients, RATE, DECAY)).abs().max())
    coupled = adam_by_hand(start, [gradient + DECAY * start for gradient in gradients], RATE)  # L2 in the gradient
    still = one_parameter(adamw, start, [torch.zeros_like(start)], RATE)
    shrunk = float((still / start - (1 - RATE * DECAY)).abs().max())
    momentum = one_parameter(Sgd(momentum=0.9), start, gradients[:2], RATE)
    expected = start - RATE * (gradients[0] + 0.9 * gradients[0] + gradients[1])
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    losses = {name: valley(name, steps) for name in ("SGD", "momentum", "Adam")}
    schedule = Noam(width=BASE_WIDTH, warmup=WARMUP)
    rates = {step: schedule.factor(step, 100_000) for step in (1, 400, 2000, WARMUP, 8000, 16_000, 64_000)}
    peak = (BASE_WIDTH * WARMUP) ** -0.5
    last, deep = {name: found[-1] for name, found in curves.items()}, parameters.layers
    checks = [
        *(
            equals(f"{name}: factor of a relu layer, geometric mean of {deep}", found ** (1 / deep), FACTORS[name],
                   FACTORS[name] * spread(parameters.width, deep))
            for name, found in last.items()
        ),
        at_most("first Adam step = rate × sign of the gradient, largest difference in rates", signs, 1e-6),
        at_most("five Adam steps = algorithm 1 by hand, largest difference", by_hand, 1e-12),
        at_most("five AdamW steps = by hand, largest difference", decayed, 1e-12),
        at_most("AdamW without gradient: factor less 1 − rate × decay", shrunk, 1e-9),
        at_least("AdamW against Adam with L2 in the gradient, largest difference",
                 float((decoupled - coupled).abs().max()), 1e-4),
        at_most("momentum = v ← 0.9 v + g, largest difference", float((momentum - expected).abs().max()), 1e-12),
        at_most("narrow valley: loss of momentum over that of SGD at the end",
                losses["momentum"][-1] / losses["SGD"][-1], 0.5),
        equals(f"warm-up: highest rate of the base model, at step {WARMUP:,}", rates[WARMUP], peak, 1e-9),
        equals("warm-up: the rate at half of it, over the highest", rates[2000] / rates[WARMUP], 0.5, 1e-9),
        equals("behind it: the rate at four times the step, over it", rates[16_000] / rates[WARMUP], 0.5, 1e-9),
    ]  # fmt: skip
    shown = [n for n in (1, 10, 25, 50, 100) if n <= deep]
    tables = [
        LabTable(
            title="mean square behind a relu layer, inputs = 1",
            header=("layer", *curves),
            rows=[(n, *(found[n - 1] for found in curves.values())) for n in shown],
            note="A relu layer multiplies it by d·Var(w)/2: 1/6 (torch), 1/2 (Glorot), 1 (He), each with a relative"
            f" deviation of √(5/d): e^±{math.sqrt(5 * deep / parameters.width):.1f} behind all.",
        ),
        LabTable(
            title=f"loss in a narrow valley after {steps} steps",
            header=("optimiser", "loss"),
            rows=[(name, found[-1]) for name, found in losses.items()],
        ),
        LabTable(
            title="learning rate of the base model (width 512, 4,000 steps of warm-up)",
            header=("step", "rate"),
            rows=[*rates.items()],
        ),
    ]
    notes = [
        "The first step of Adam has the length of the rate, whatever the gradient's: it needs a warm-up. Decay is not"
        " the same as L2 in the gradient, which Adam divides by the size of the gradient."
    ]
    return LabOutcome(tables=tables, figures=[_figure(curves, losses, schedule)], checks=checks, notes=notes)


def _figure(curves: dict[str, list[float]], losses: dict[str, list[float]], schedule: Noam) -> LabFigure:
    figure, (sizes, valleys, rates) = draw.panels(3, height=3.3)
    for number, (name, found) in enumerate(curves.items()):
        draw.line(sizes, range(1, len(found) + 1), found, name, number, markers=False)
    for number, (name, found) in enumerate(losses.items()):
        draw.line(valleys, range(len(found)), found, name, number, markers=False)
    for axes in (sizes, valleys):
        axes.set_yscale("log")
    steps = [*range(1, 20_000, 100)]
    draw.line(rates, steps, [1e4 * schedule.factor(step, 20_000) for step in steps], "", 0, markers=False)
    rates.set_xticks([0, WARMUP, 4 * WARMUP], ["0", "4,000", "16,000"])
    draw.style(sizes, "Size by layer", "layer", "mean square", legend="lower left")
    draw.style(valleys, "A narrow valley", "step", "loss", legend="upper right")
    draw.style(rates, "Warm-up", "step", "learning rate (10⁻⁴)")
    alt = (
        f"Left: the mean square behind {len(curves['He'])} relu layers stays near 1 with He's initialisation"
        f" ({curves['He'][-1]:.2f}) and falls to {curves['Glorot'][-1]:.0e} with Glorot's and"
        f" {next(iter(curves.values()))[-1]:.0e} with torch's default. Middle: loss in a narrow valley, where momentum"
        " and Adam are ahead of SGD. Right: the learning rate rises for 4,000 steps and falls with the root of the"
        " step."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="tricks",
    chapter=2,
    title="initialisation, optimisers, decay, warm-up",
    claim="He's initialisation keeps the size of fifty relu layers where torch's default loses it at once; Adam's"
    " first step has the length of the rate whatever the gradient; and decoupled decay is not L2.",
    slides=(Slide("000", "Going Deeper 11", 329), Slide("001", "Going Deeper 11", 326)),
    parameters=TricksParameters,
    run=run,
    mechanism=("variances", "one_parameter", "valley"),
    exercise=Exercise(
        function="adam_by_hand",
        task="m ← 0.9 m + 0.1 g, v ← 0.999 v + 0.001 g², both divided by what is missing to a mean (1 − β^t), and"
        " the weight shrunk by 1 − rate·decay before each step. EPS is added to the root.",
        hints=(
            "Two running means beside the weight, both from 0; steps are counted from 1.",
            "m and v begin at 0, so that they are too small by 1 − β^t at step t: divide by it, at every step.",
            "weight − rate · (m / (1 − 0.9**t)) / (√(v / (1 − 0.999**t)) + EPS).",
        ),
        bugs=(
            PlantedBug(
                right="(first / (1 - 0.9**step))",
                wrong="first",
                fails="five Adam steps",
                hint="At the first step the mean has a tenth of the gradient only.",
            ),
            PlantedBug(
                right="weight * (1 - rate * decay)",
                wrong="weight * (1 - decay)",
                fails="five AdamW steps",
                hint="By how much does a weight shrink in a step without a gradient?",
            ),
            PlantedBug(
                right="0.001 * gradient.square()",
                wrong="0.001 * gradient",
                fails="five Adam steps",
                hint="What are the two means of?",
            ),
        ),
    ),
)
