"""LayerNorm, BatchNorm and RMSNorm on the same numbers: who else changes my row, and what a norm does not do.

LayerNorm looks at one token, BatchNorm at everyone in the batch (Ba et al. 2016; Ioffe and Szegedy 2015; Zhang and
Sennrich 2019). The decks' formula of LayerNorm has two misprints, and what comes out is standardised, not Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config import positive
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, within
from headway.nn.norms import BatchNorm, LayerNorm, Norm, RMSNorm
from headway.plots import lab_figures as draw

KINDS: dict[str, Norm] = {"LayerNorm": LayerNorm(), "RMSNorm": RMSNorm(), "BatchNorm": BatchNorm()}
LENGTH = 6  # tokens of a sequence
ROWS, QUICK_ROWS = 40_000, 10_000  # for the histograms
WITHIN_3 = 0.9973  # the share of a normal distribution within three standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class NormsParameters:
    """The numbers that are normalised."""

    width: int = 16  # features of a token
    batch: int = 8  # sequences of a batch

    def __post_init__(self) -> None:
        positive("--width", self.width, least=4)
        positive("--batch", self.batch, least=2)


def normalise(kind: str, x_BTD: Tensor, real_BT: Tensor | None = None) -> Tensor:
    """A fresh norm of this kind, in training mode: (B, T, D) -> (B, T, D)."""
    norm = KINDS[kind].build(x_BTD.shape[-1]).double().train()
    with torch.no_grad():
        made: Tensor = norm(x_BTD, real_BT)
    return made


def as_printed(x: Tensor) -> Tensor:
    """(x − mean)/σ with the slide's σ = √(Σ(x − mean)²)/d, the 1/d outside of the root, and the mean corrected."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().sum(-1, keepdim=True).sqrt() / x.shape[-1])


def printed_mean(x: Tensor) -> Tensor:
    """The slide's mean, d·Σx in place of Σx/d."""
    return x.shape[-1] * x.sum(-1)


def by_step(x: Tensor) -> dict[str, tuple[float, float, float]]:
    """Mean, deviation and share of positive features of tokens (N, D) as they are, centred, and rescaled."""
    centred = x - x.mean(-1, keepdim=True)
    stages = {"as they are": x, "centred": centred, "rescaled, too": normalise("LayerNorm", x[None])[0]}
    return {
        name: (
            float(each.mean()),
            float((each - each.mean(-1, keepdim=True)).square().mean(-1).sqrt().mean()),
            float((each > 0).double().mean()),
        )
        for name, each in stages.items()
    }


def run(parameters: NormsParameters, seed: int, quick: bool) -> LabOutcome:
    """How a row changes with its batch, with padding and alone; the printed formula; how Gaussian the result is."""
    width, generator = parameters.width, torch.Generator().manual_seed(seed)
    x = torch.randn(parameters.batch, LENGTH, width, generator=generator, dtype=torch.float64)
    others = x.clone()
    others[1:] = 3 * torch.randn(x[1:].shape, generator=generator, dtype=torch.float64) + 1
    everything = torch.ones(parameters.batch, LENGTH, dtype=torch.bool)
    padded = torch.cat([x, torch.full_like(x[:, :3], 5.0)], 1)  # three positions of padding behind each sequence
    real = torch.cat([everything, torch.zeros_like(everything[:, :3])], 1)
    changes: dict[str, tuple[float, ...]] = {}
    for kind in KINDS:
        own = normalise(kind, x, everything)[0]
        changes[kind] = (
            _change(normalise(kind, others, everything)[0], own),
            _change(normalise(kind, padded, torch.ones_like(real))[0, :LENGTH], own),
            _change(normalise(kind, padded, real)[0, :LENGTH], own),
            _change(normalise(kind, x[:1], everything[:1])[0], own),
        )

    rows = QUICK_ROWS if quick else ROWS
    gaussian = torch.randn(rows, width, generator=generator, dtype=torch.float64)
    heavy = gaussian / torch.rand(rows, width, generator=generator, dtype=torch.float64).clamp_min(1e-6)  # no variance
    normed = {name: normalise("LayerNorm", each[None])[0] for name, each in (("Gaussian", gaussian), ("heavy", heavy))}
    inside = {name: float((each.abs() <= 3).double().mean()) for name, each in normed.items()}
    largest, bound = max(float(each.abs().max()) for each in normed.values()), math.sqrt(width - 1)
    printed = float(as_printed(gaussian).square().mean(-1).sqrt().mean())
    ratio = float((printed_mean(gaussian) / gaussian.mean(-1)).median())
    steps = by_step(3 * gaussian + 5)
    mean, std = float(normed["heavy"].mean(-1).abs().max()), float(normed["Gaussian"].square().mean(-1).sqrt().mean())
    one_spike = torch.zeros(1, 1, width, dtype=torch.float64)
    one_spike[..., 0] = 1e6
    spike = float(normalise("LayerNorm", one_spike).max())
    checks = [
        at_most("LayerNorm: change of a row when its batch mates change", changes["LayerNorm"][0], 0.0),
        at_most("RMSNorm: the same", changes["RMSNorm"][0], 0.0),
        at_least("BatchNorm: the same", changes["BatchNorm"][0], 0.1),
        at_least("BatchNorm: change by padding that is not masked", changes["BatchNorm"][1], 0.1),
        at_most("BatchNorm: change by padding that is masked", changes["BatchNorm"][2], 1e-12),
        at_least("BatchNorm: change of a row that is alone in its batch", changes["BatchNorm"][3], 0.1),
        at_least("inputs of mean 5, deviation 3: share of positive features", steps["as they are"][2], 0.9),
        within("centred: share of positive features", steps["centred"][2], 0.45, 0.55),
        at_most("LayerNorm: largest mean of a token", mean, 1e-9),
        equals("LayerNorm: standard deviation of a token", std, 1.0, 1e-4),
        equals("LayerNorm with the printed σ: standard deviation is √d", printed, math.sqrt(width), 1e-9),
        equals("printed mean over the mean is d²", ratio, width**2, 1e-6 * width**2),
        at_most("largest |x̂| over √(d−1), which it cannot exceed", largest / bound, 1.0 + 1e-12),
        equals("one large feature reaches √(d−1)", spike, bound, 1e-3),
        within("Gaussian inputs: share within ±3", inside["Gaussian"], 0.995, 1.0),
        at_least(
            f"inputs with heavy tails: share within ±3, distance from a Gaussian's {WITHIN_3}",
            abs(inside["heavy"] - WITHIN_3), 0.002,
        ),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="largest change of the first row of a batch, in training",
            header=("norm", "other batch mates", "padding, not masked", "padding, masked", "alone in the batch"),
            rows=[(kind, *found) for kind, found in changes.items()],
            note="In use BatchNorm takes statistics that it kept from training, and a row does not change either.",
        ),
        LabTable(
            title="what each step of LayerNorm does to a token, averaged over tokens",
            header=("step", "mean", "standard deviation in a token", "share that is positive"),
            rows=[(name, *found) for name, found in steps.items()],
            note=f"Drawn with mean 5 and deviation 3; within a token of {width} numbers the deviation is less.",
        ),
        LabTable(
            title=f"LayerNorm as printed, d = {width}",
            header=("what", "printed", "right"),
            rows=[("the slide's mean over the true mean", ratio, 1.0), ("standard deviation behind it", printed, std)],
        ),
        LabTable(
            title="is it normally distributed? share of numbers within ±3 behind LayerNorm",
            header=("inputs", "share", "of a Gaussian"),
            rows=[(name, share, WITHIN_3) for name, share in inside.items()],
            note=f"No number can be beyond √(d−1) = {bound:.3f}, whatever the inputs.",
        ),
    ]
    notes = [
        "Centring removes what all features share, rescaling sets their spread to 1; neither changes the shape of their"
        " distribution. A row's LayerNorm is its own affair; its BatchNorm depends on who else is in the batch, on"
        " padding, and on how many there are, which is why sequences use LayerNorm."
    ]
    return LabOutcome(tables=tables, figures=[_figure(normed, changes, bound)], checks=checks, notes=notes)


def _change(found: Tensor, own: Tensor) -> float:
    return float((found - own).abs().max())


def _figure(normed: dict[str, Tensor], changes: dict[str, tuple[float, ...]], bound: float) -> LabFigure:
    figure, (shapes, drift) = draw.panels(2, height=3.4)
    bins = torch.linspace(-bound - 0.2, bound + 0.2, 81)
    grid = torch.linspace(-4, 4, 200)
    for number, (name, values) in enumerate(normed.items()):
        colour = draw.COLOURS[number]
        label = f"{name} inputs" if name == "Gaussian" else "inputs with heavy tails"
        shapes.hist(values.flatten(), bins=bins, density=True, color=colour, alpha=0.45, label=label)
    shapes.plot(
        grid, (-grid.square() / 2).exp() / math.sqrt(2 * math.pi), color=draw.INK, linewidth=1.2, label="N(0, 1)"
    )
    for edge in (-bound, bound):
        draw.reference(shapes, edge, vertical=True)
    shapes.set_ylim(0, 1.5)
    draw.style(shapes, "Behind LayerNorm", "feature (standard deviations)", "density", legend="upper right")
    names = ("other\nbatch mates", "padding", "padding,\nmasked", "alone in\nthe batch")
    for number, (kind, found) in enumerate(changes.items()):
        at = [place + 0.27 * (number - 1) for place in range(len(names))]
        bars = drift.bar(at, found, width=0.25, color=draw.COLOURS[number], label=kind)
        drift.bar_label(bars, [f"{value:.1f}" if value else "0" for value in found], fontsize=8, color=draw.INK)
    drift.set_xticks(range(len(names)), names)
    drift.set_ylim(0, 1.45 * max(changes["BatchNorm"]))  # room for the legend above the bars
    draw.style(
        drift, "Change of one row", "what changes around it", "largest change of a feature", legend="upper right"
    )
    worst = max(changes["BatchNorm"])
    alt = (
        "Left: histograms behind LayerNorm; Gaussian inputs follow the normal curve, heavy-tailed ones have a sharp"
        f" peak and a pile at the bound of {bound:.2f}. Right: how far a row changes with its batch mates, with padding"
        f" and alone: LayerNorm and RMSNorm not at all, BatchNorm by up to {worst:.2f}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="norms",
    chapter=2,
    title="what a norm does and does not do",
    claim="LayerNorm gives a token mean 0 and deviation 1 whatever else is in the batch, which BatchNorm does not; the"
    " printed formula is off by √d, and the result is bounded by √(d−1) and not Gaussian.",
    slides=(
        Slide("000", "Going Deeper 25–27", 848),
        Slide("002", "p. 47"),
        Slide("003", "line 263"),
        Slide("004", "p. 38"),
    ),
    parameters=NormsParameters,
    run=run,
    mechanism=("normalise", "as_printed"),
    exercise=Exercise(
        function="headway.nn.norms:SequenceBatchNorm.forward",
        task="In training the statistics must not see padding: real_BT (B, T) is True for real tokens, None where"
        " all are. self._normalise takes rows (N, D) and normalises each feature over the N of them.",
        hints=(
            "Without a mask, or in evaluation, all B·T tokens are the rows: flatten, normalise, and give the"
            " shape back.",
            "With a mask, x_BTD[real_BT] is the rows of the real tokens (N, D).",
            "Make zeros like x_BTD, and set those at real_BT to the normalised rows.",
        ),
        bugs=(
            PlantedBug(
                right="self._normalise(x_BTD[real_BT])",
                wrong="self._normalise(x_BTD.flatten(0, 1)).view_as(x_BTD)[real_BT]",
                fails="BatchNorm: change by padding that is masked",
                hint="Which rows do mean and variance come from?",
            ),
        ),
    ),
)
