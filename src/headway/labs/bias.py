"""Inductive bias: an image moved by a few pixels, and few images to learn from; a small CNN and a small ViT.

A convolution does the same at every place, so that its features move with the image (translation equivariance). A ViT
has a learned vector for each place and must learn from data that a digit is the same everywhere (Dosovitskiy et al.
2021, section 3.1, "Inductive bias").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit_model, share_right
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most
from headway.labs.small_digits import digits
from headway.models import Convnet, ConvnetConfig, Vit, VitConfig, build_model
from headway.plots import lab_figures as draw

SIDE, PATCH = 12, 2
MOVED_SIDE, INTERIOR = 24, 8  # of the moved images; from the edge, where three convolutions and the shift do not reach
SHIFTS = (0, 2, 4)  # pixels, whole patches
COUNTS, QUICK_COUNTS = (100, 200, 800, 6400), (200, 1600)
TESTED, BATCH, QUICK_STEPS = 1000, 50, 150


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasParameters:
    """How long both are trained."""

    steps: int = 300  # of training, 50 images each, whatever their number

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def convnet(seed: int) -> Convnet:
    """A residual network of two stages."""
    return cast(Convnet, build_model(ConvnetConfig(classes=10, channels=1, widths=(12, 24), blocks=1), seed=seed))


def vit(seed: int, side: int = SIDE) -> Vit:
    """A ViT of two layers, of about as many weights."""
    config = VitConfig(
        classes=10, image=side, channels=1, patch=PATCH, width=24, layers=2, heads=3, inner=48, pool="mean"
    )
    return cast(Vit, build_model(config, seed=seed))


@torch.no_grad()
def moved(images: Tensor, by: int) -> Tensor:
    """Images moved to the right, the edge repeated around: what leaves on one side enters on the other."""
    return images.roll(by, -1)


@torch.no_grad()
def change(seed: int, by: int) -> tuple[float, float]:
    """How far features are from having moved with the image, relative to their size: of the CNN, of the ViT."""
    images = torch.randn(8, 1, MOVED_SIDE, MOVED_SIDE, generator=torch.Generator().manual_seed(seed))
    first_stage = build_model(ConvnetConfig(classes=10, channels=1, widths=(12,), blocks=1), seed=seed)
    maps = []
    for model, cell in ((cast(Convnet, first_stage), 1), (vit(seed, MOVED_SIDE), PATCH)):
        model.eval()
        side = MOVED_SIDE // cell
        before, after = (model.features(each).mT.unflatten(2, (side, side)) for each in (images, moved(images, by)))
        edge = INTERIOR // cell
        expected = before.roll(by // cell, -1)
        inside = (..., slice(edge, -edge or None), slice(edge, -edge or None))
        maps.append(float((after[inside] - expected[inside]).norm() / expected[inside].norm()))
    return maps[0], maps[1]


def accuracy(model: nn.Module, count: int, steps: int, seed: int, what: str) -> float:
    """The share of new digits that are right after training on `count` images."""
    generator = torch.Generator().manual_seed(seed)
    images, labels = digits(count, SIDE, generator)

    def loss(step: int) -> Tensor:
        rows = torch.randint(count, (BATCH,), generator=generator)
        return F.cross_entropy(model(images[rows]), labels[rows])

    fit_model(model, loss, steps=steps, rate=4e-3, what=f"{what}, {count} images")
    return share_right(model, *digits(TESTED, SIDE, torch.Generator().manual_seed(seed + 1000)))


def run(parameters: BiasParameters, seed: int, quick: bool) -> LabOutcome:
    """Features of moved images, then accuracy by the number of images."""
    changes = {by: change(seed, by) for by in SHIFTS}
    counts = QUICK_COUNTS if quick else COUNTS
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    right = {
        count: (
            accuracy(convnet(seed), count, steps, seed, "CNN"),
            accuracy(vit(seed), count, steps, seed, "ViT"),
        )
        for count in counts
    }
    sizes = [sum(p.numel() for p in model.parameters()) for model in (convnet(seed), vit(seed))]
    apart = max(changes[by][0] for by in SHIFTS[1:]), min(changes[by][1] for by in SHIFTS[1:])
    gained = right[counts[-1]][1] - right[200][1]
    checks = [
        at_most("CNN: features of a moved image = moved features, relative difference", apart[0], 1e-5),
        at_least("ViT: the same", apart[1], 1e-2),
        at_most("both: an image that is not moved", max(changes[0]), 1e-6),
        at_least("200 images: points that the CNN is ahead", 100 * (right[200][0] - right[200][1]), 10.0),
        at_least(f"{counts[-1]:,} images: points that the ViT gains over 200 images", 100 * gained, 2.0),
        at_least("CNN, most images: digits right", right[counts[-1]][0], 0.6 if quick else 0.9),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="an image moved to the right: relative distance of its features from the moved features",
            header=("pixels", "CNN", "ViT"),
            rows=[(by, *changes[by]) for by in SHIFTS],
            note="Untrained, away from the edges; the ViT is moved by whole patches: only positions differ.",
        ),
        LabTable(
            title=f"digits right after {steps} steps, {TESTED:,} new images",
            header=("images to learn from", f"CNN, {sizes[0]:,} weights", f"ViT, {sizes[1]:,} weights", "CNN ahead"),
            rows=[(count, *both, both[0] - both[1]) for count, both in right.items()],
        ),
    ]
    notes = [
        "The CNN needs to see a digit in one place, the ViT in every place. The deck's second half, that large data"
        " trumps the bias, needs far more images and steps than a lab has: here the ViT comes nearer, no more."
    ]
    return LabOutcome(tables=tables, figures=[_figure(changes, right)], checks=checks, notes=notes)


def _figure(changes: dict[int, tuple[float, float]], right: dict[int, tuple[float, float]]) -> LabFigure:
    figure, (left, rest) = draw.panels(2, height=3.4)
    for number, name in enumerate(("CNN", "ViT")):
        draw.line(left, SHIFTS, [max(changes[by][number], 1e-9) for by in SHIFTS], name, number)
        draw.line(rest, [*right], [100 * both[number] for both in right.values()], name, number)
    left.set_yscale("log")
    left.set_ylim(1e-10, 10)
    left.set_xticks([*SHIFTS])
    rest.set_xscale("log")
    rest.set_xticks([*right], [f"{count:,}" for count in right])
    rest.minorticks_off()
    rest.set_ylim(0, 104)
    draw.style(left, "Do features move with the image?", "image moved by (pixels)", "difference (0 drawn at 1e-9)",
               legend="center right")  # fmt: skip
    draw.style(rest, "Learning from few images", "images to learn from", "digits right (%)", legend="lower right")
    alt = (
        "Left: how far features are from having moved with the image: about"
        f" {changes[2][0]:.0e} for the CNN, {changes[2][1]:.2f} for the ViT when moved by 2 pixels. Right: digits right"
        f" by number of images: {'; '.join(f'{n}: CNN {a:.0%}, ViT {b:.0%}' for n, (a, b) in right.items())}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="bias",
    chapter=9,
    title="what a CNN knows before it learns",
    claim="A convolution's features move with the image exactly, a ViT's do not; so a CNN reads digits from 200 images"
    " that a ViT of equal size does not, and more images bring the ViT nearer.",
    slides=(Slide("003", "inductive bias", 301), Slide("004", "p. 59", 721)),
    parameters=BiasParameters,
    run=run,
    mechanism=("convnet", "moved", "vit"),
    exercise=Exercise(
        function="change",
        cut=("expected =", "maps.append("),
        task="`before` are the features (B, D, side, side) of the images, `after` those of the moved images."
        " Expected are the features of the images, moved by as many cells. Away from the edge (`edge` cells"
        " on each side), append the norm of their difference over that of the expected ones.",
        hints=(
            "A cell is `cell` pixels wide: an image moved by `by` pixels moves features by by // cell cells.",
            "roll moves along the last axis, as `moved` does with the images.",
            "A slice edge:-edge on the last two axes leaves the edges out.",
        ),
        bugs=(
            PlantedBug(
                right="before.roll(by // cell, -1)",
                wrong="before.roll(by // cell, -2)",
                fails="CNN: features of a moved",
                hint="In which direction were the images moved?",
            ),
        ),
    ),
)
