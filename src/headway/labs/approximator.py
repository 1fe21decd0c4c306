"""A wide network of one hidden layer approximates anything; a deep one needs fewer units for some things.

Two-layer networks of growing width are fitted to a sine (Cybenko 1989; Hornik 1991: the error can be made as small as
one likes). Then a triangle wave: k layers of two units fold the line k times and make 2^k pieces exactly, where one
hidden layer needs about as many units as there are pieces (Telgarsky 2016, "Benefits of depth in neural networks").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_most, equals, progress
from headway.plots import lab_figures as draw

POINTS = 256  # of the interval from -1 to 1
RATE = 1e-2
TEETH = 8  # of the triangle wave that is fitted
QUICK_STEPS, QUICK_SEEDS = 300, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximatorParameters:
    """What is fitted."""

    widths: tuple[int, ...] = (4, 8, 16, 32, 64, 128)  # of the hidden layer
    steps: int = 1000  # of Adam, on all points
    seeds: int = 8  # networks of each width
    folds: int = 6  # layers of the network that folds

    def __post_init__(self) -> None:
        for width in self.widths:
            positive("--widths", width)
        if len(self.widths) < 2 or list(self.widths) != sorted({*self.widths}):
            raise ConfigError(f"--widths {self.widths}: expected at least two rising numbers")
        positive("--steps", self.steps)
        positive("--seeds", self.seeds)
        if not 1 <= self.folds <= 12:
            raise ConfigError(f"--folds {self.folds}: expected 1 to 12")


def sine(x: Tensor) -> Tensor:
    """Four waves between -1 and 1."""
    return torch.sin(4 * math.pi * x)


def triangle(x: Tensor) -> Tensor:
    """A triangle wave of TEETH teeth between -1 and 1."""
    half = TEETH * x / 2
    return 4 * (half - torch.floor(half + 0.5)).abs() - 1


def apply(layers: Sequence[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    """relu between linear layers, for S networks side by side: (S, N, 1) -> (S, N, 1)."""
    for number, (weights, biases) in enumerate(layers):
        x = torch.baddbmm(biases, x, weights)
        x = x.relu() if number < len(layers) - 1 else x
    return x


def fit(
    sizes: Sequence[int], target: Callable[[Tensor], Tensor], *, steps: int, seeds: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Networks with these hidden layers -> the root mean square error of each (S,), and the first one's curve (N,)."""
    ""
    generator = torch.Generator().manual_seed(seed)
    x = torch.linspace(-1, 1, POINTS)[None, :, None].expand(seeds, -1, -1)
    wanted = target(x)
    layers = [
        tuple(
            ((2 * torch.rand(seeds, rows, into, generator=generator) - 1) / math.sqrt(fan)).requires_grad_()
            for rows in (fan, 1)
        )
        for fan, into in pairwise((1, *sizes, 1))
    ]
    optimiser = torch.optim.Adam([part for layer in layers for part in layer], lr=RATE, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        error = (apply(layers, x) - wanted).square().mean((1, 2))  # type: ignore[arg-type]
        optimiser.zero_grad()
        error.sum().backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            progress(f"hidden layers {', '.join(map(str, sizes))}", step, steps)
    with torch.no_grad():
        said = apply(layers, x)  # type: ignore[arg-type]
    return (said - wanted).square().mean((1, 2)).sqrt(), said[0, :, 0]


def fold(x: Tensor) -> Tensor:
    """One layer of two relu units that folds 0 … 1 in the middle: 0, 1/4, 1/2, 3/4, 1 -> 0, 1/2, 1, 1/2, 0."""
    return 2 * x.relu() - 4 * (x - 0.5).relu()


def folded(x: Tensor, times: int) -> Tensor:
    """`times` layers of two units: a triangle wave of 2^(times−1) teeth on 0 … 1."""
    for _ in range(times):
        x = fold(x)
    return x


def pieces(y: Tensor) -> int:
    """Straight pieces of a curve (N,), given on a fine grid: one more than the changes of its slope.

    A corner between two points of the grid changes the slope at both, which counts as one.
    """
    slope = y.diff()
    corner = (slope[1:] - slope[:-1]).abs() > 1e-6 * slope.abs().max()
    return 1 + int((corner[1:] & ~corner[:-1]).sum()) + int(corner[0])


def run(parameters: ApproximatorParameters, seed: int, quick: bool) -> LabOutcome:
    """Error by width, width against depth, and the network that folds."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    seeds = min(QUICK_SEEDS, parameters.seeds) if quick else parameters.seeds
    widths = parameters.widths[::2] if quick else parameters.widths
    found = {width: fit([width], sine, steps=steps, seeds=seeds, seed=seed) for width in widths}
    means = [float(errors.mean()) for errors, _ in found.values()]
    falls = max(later / earlier for earlier, later in pairwise(means))
    wide = fit([128], triangle, steps=steps, seeds=seeds, seed=seed)[0]
    deep = fit([32, 32], triangle, steps=steps, seeds=seeds, seed=seed)[0]
    grid = torch.linspace(0, 1, 2**parameters.folds * 8 + 1, dtype=torch.float64)  # corners are points of it
    waves = folded(grid, parameters.folds)
    exact = 1 - (2 * ((2 ** (parameters.folds - 1) * grid) % 1) - 1).abs()
    units = 2 * parameters.folds
    checks = [
        at_most("error of a width over that of the width before it, largest (mean over seeds)", falls, 0.999),
        at_most("error of the widest over that of the narrowest", means[-1] / means[0], 0.9 if quick else 0.5),
        at_most("triangle wave: error of three layers of 32 over two layers of 128, means",
                float(deep.mean() / wide.mean()), 1.0 if quick else 0.95),
        at_most(f"{parameters.folds} layers of two units = triangle wave, largest difference",
                float((waves - exact).abs().max()), 1e-9),
        equals(f"straight pieces of {units} units in {parameters.folds} layers", pieces(waves), 2**parameters.folds),
        at_most("straight pieces of a hidden layer of 32 over 33, the most it can have",
                pieces(_fine(32, seed)) / 33, 1.0),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="root mean square error of sin 4πx, by width of the hidden layer",
            header=("width", "mean", "best seed", "worst seed"),
            rows=[
                (width, mean, float(errors.min()), float(errors.max()))
                for (width, (errors, _)), mean in zip(found.items(), means, strict=True)
            ],
        ),
        LabTable(
            title=f"a triangle wave of {TEETH} teeth",
            header=("network", "parameters", "mean error"),
            rows=[
                ("two layers, 128 hidden units", 3 * 128 + 1, float(wide.mean())),
                ("three layers, 32 hidden units each", 64 + 33 * 32 + 33, float(deep.mean())),
                (f"{parameters.folds} layers of two units, by hand", 7 * parameters.folds, 0.0),
            ],
            note=f"By hand: a wave of 2^{parameters.folds - 1} = {2 ** (parameters.folds - 1)} teeth, exactly.",
        ),
    ]
    notes = [
        "Wider is better, and no width is the last. That the error can be made small says neither how many units that"
        " takes"
        " nor that training finds them: folding doubles the pieces with two units a layer, one hidden layer adds one"
        " piece"
        " a unit."
    ]
    figure = _figure(found, means, grid, waves)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _fine(width: int, seed: int) -> Tensor:
    """A random hidden layer of this width on a fine grid."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.linspace(-1, 1, 200_001, dtype=torch.float64)[:, None]
    first, second = torch.randn(2, width, generator=generator, dtype=torch.float64)
    curve: Tensor = (x - first * 0.5).relu() @ second
    return curve


def _figure(found: dict[int, tuple[Tensor, Tensor]], means: list[float], grid: Tensor, waves: Tensor) -> LabFigure:
    figure, (fits, errors_at, folds_at) = draw.panels(3, height=3.3)
    x = torch.linspace(-1, 1, POINTS)
    widths = [*found]
    fits.plot(x, sine(x), color=draw.SOFT, linewidth=3, alpha=0.4, label="sin 4πx")
    for number, width in enumerate(widths[:: max(1, len(widths) - 1)]):
        draw.line(fits, x, found[width][1], f"width {width}", number, markers=False)
    fits.set_ylim(-2.1, 1.3)
    draw.style(fits, "Fits", "x", "y", legend="lower left")
    low, high = ([float(getattr(errors, side)()) for errors, _ in found.values()] for side in ("min", "max"))
    draw.line(errors_at, widths, means, "", 0, low=low, high=high)
    errors_at.set_xscale("log", base=2)
    errors_at.set_xticks(widths, [str(width) for width in widths])
    errors_at.set_ylim(bottom=0)
    draw.style(errors_at, "Error by width", "hidden units", "root mean square error")
    for number in range(3):
        shape = folded(grid, number + 1)
        draw.line(folds_at, grid, shape, f"depth {number + 1}: {pieces(shape)} pieces", number, markers=False)
    folds_at.set_ylim(-0.75, 1.1)
    draw.style(folds_at, "Two units a layer", "x", "y", legend="lower left")
    alt = (
        f"Left: networks of width {widths[0]} and {widths[-1]} against a sine. Middle: the error falls from"
        f" {means[0]:.2f} at width {widths[0]} to {means[-1]:.2f} at {widths[-1]}, with the range of the seeds. Right:"
        f" layers of two units fold the line: 2, 4 and 8 pieces, and {pieces(waves)} at the depth of the checks."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="approximator",
    chapter=2,
    title="width approximates, depth folds",
    claim="The error of a two-layer network falls with every doubling of its width, and some functions that need 2^k"
    " units"
    " in one hidden layer need k layers of two.",
    slides=(Slide("000", "Going Deeper 13", 436), Slide("001", "Going Deeper 13", 433)),
    parameters=ApproximatorParameters,
    run=run,
    mechanism=("apply", "fold"),
    exercise=Exercise(
        function="fold",
        task="Two units relu(x) and relu(x − 1/2), added with two weights, are enough.",
        hints=(
            "Up to 1/2 only the first unit is above 0: what is its weight, if 1/2 has to become 1?",
            "Behind 1/2 the slope has to change from +2 to −2; only the second unit can do that.",
            "The second weight is the change of the slope: −4.",
        ),
        bugs=(
            PlantedBug(
                right="4 *",
                wrong="2 *",
                fails="6 layers of two units",
                hint="Which slope does the curve have behind the fold?",
            ),
            PlantedBug(
                right="0.5",
                wrong="0.25",
                fails="6 layers of two units",
                hint="Where does the second unit begin?",
            ),
        ),
    ),
)
