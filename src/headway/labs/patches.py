"""An image as words: patches, shifted patches, locality self-attention, and what a trained ViT attends to.

A ViT splits an image into patches and puts each through one linear layer, which is a convolution whose stride is its
size (Dosovitskiy et al. 2021, section 3.1). For small data, patches of four shifted copies are added, and no patch
attends to itself (Lee et al. 2021, sections 3.2 and 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit_model, share_right
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals
from headway.labs.small_digits import digits
from headway.models import Vit, VitConfig, build_model
from headway.nn.norms import LayerNorm
from headway.nn.patches import PatchEmbedding, Patches, Shifted, patchify, shift_diagonally, to_convolution
from headway.plots import lab_figures as draw

SIDE, PATCH = 8, 2
TESTED, BATCH = 2000, 64
QUICK_STEPS = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchesParameters:
    """How long is trained."""

    steps: int = 600  # of training, 64 new images each

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def config(*, shifted: bool, local: bool) -> VitConfig:
    """A ViT of two layers for 8 × 8 pixels in patches of 2 × 2."""
    return VitConfig(
        classes=10, image=SIDE, channels=1, patch=PATCH, patches=Shifted() if shifted else Patches(), width=32,
        layers=2, heads=4, inner=64, local=local,
    )  # fmt: skip


def tokens(embedding: PatchEmbedding, images: Tensor) -> Tensor:
    """Images (B, C, height, width) -> one vector a patch (B, T, D)."""
    vectors: Tensor = embedding(images)
    return vectors


def trained(shifted: bool, local: bool, steps: int, seed: int) -> tuple[Vit, float]:
    """A ViT trained on digits, and its accuracy on new ones."""
    model = cast(Vit, build_model(config(shifted=shifted, local=local), seed=seed))
    generator = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        images, labels = digits(BATCH, SIDE, generator)
        return F.cross_entropy(model(images), labels)

    what = "training, SPT and LSA" if local else "training, plain patches"
    fit_model(model, loss, steps=steps, what=what)
    images, labels = digits(TESTED, SIDE, torch.Generator().manual_seed(seed + 1000))
    return model, share_right(model, images, labels)


@torch.no_grad()
def looks(model: Vit, image: Tensor) -> Tensor:
    """The attention weights of the last layer, mean over heads (T, T), for one image (1, height, width)."""
    seen: list[Tensor] = []
    block: Any = model.stack.blocks[-1]
    hook = block.attention.tap_weights.register_forward_hook(lambda module, given, weights: seen.append(weights))
    try:
        model(image.unsqueeze(0))
    finally:
        hook.remove()
    return seen[0][0].mean(0)


def run(parameters: PatchesParameters, seed: int, quick: bool) -> LabOutcome:
    """Exact identities of patches, then two trained ViTs."""
    generator = torch.Generator().manual_seed(seed)
    colour = torch.randn(4, 3, 12, 12, generator=generator, dtype=torch.float64)
    plain = PatchEmbedding(Patches(), patch=4, channels=3, width=16, norm=LayerNorm()).double()
    kernel = to_convolution(plain.projection.weight, 4)
    convolved = F.conv2d(colour, kernel, plain.projection.bias, stride=4).flatten(2).mT
    same = float((tokens(plain, colour) - convolved).detach().abs().max())
    copies = shift_diagonally(colour, 2).unflatten(1, (5, 3))
    moved = float((copies[:, 1, :, 2:, 2:] - colour[:, :, :-2, :-2]).abs().max())  # the copy from left-up
    spt = PatchEmbedding(Shifted(), patch=4, channels=3, width=16, norm=LayerNorm())
    wider = spt.projection.in_features / plain.projection.in_features
    swapped = float((tokens(plain, colour) - tokens(plain, colour.flip(-1))).detach().abs().max())

    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    base, accuracy = trained(False, False, steps, seed)
    small, local_accuracy = trained(True, True, steps, seed)
    image, _ = digits(1, SIDE, torch.Generator().manual_seed(seed + 5))
    here, there = looks(base, image[0]), looks(small, image[0])
    lower_right = here[-1, 1:]
    checks = [
        at_most("patches through a matrix = a convolution of stride 4, largest difference", same, 1e-12),
        equals("tokens of a 12 × 12 image in patches of 4", patchify(colour, 4).shape[1], 9),
        at_most("SPT: the copy from left-up = the image moved by half a patch, difference", moved, 0.0),
        equals("SPT: pixels of a token / of a plain patch", wider, 5),
        at_least("a mirrored image has other tokens: largest difference", swapped, 1e-3),
        at_most("LSA: largest weight of a patch on itself", float(there.diagonal().max()), 0.0),
        at_most("LSA: weights of a query, distance of their sum from 1", float((there.sum(-1) - 1).abs().max()), 1e-5),
        at_least("plain: largest weight of a patch on itself", float(here.diagonal().max()), 0.01),
        at_most("lower-right patch: parts of the image that it cannot see", int((lower_right <= 0).sum()), 0),
        at_least("digits right, plain patches", accuracy, 0.3 if quick else 0.6),
        at_least("digits right, SPT and LSA", local_accuracy, 0.6 if quick else 0.93),
        at_least("points that SPT and LSA are ahead after the same steps", 100 * (local_accuracy - accuracy), 3.0),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"digits of {SIDE} × {SIDE} pixels, {steps} steps, {TESTED:,} new images",
            header=("model", "weights", "right"),
            rows=[
                ("ViT, plain patches", _size(base), accuracy),
                ("ViT, shifted patches and locality self-attention", _size(small), local_accuracy),
            ],
        ),
        LabTable(
            title="what the lower-right patch attends to, last layer, in percent (4 × 4 patches)",
            header=("row", *(f"column {n}" for n in range(1, 5))),
            rows=[(n + 1, *(float(x) for x in row)) for n, row in enumerate(100 * lower_right.unflatten(0, (4, 4)))],
        ),
    ]
    notes = [
        "“I can see everything”: every patch attends to every other in the first layer already. A convolution of 3 × 3"
        " would need layers to get from corner to corner. With LSA a patch has exactly no weight on itself."
        " On few steps, shifted patches and LSA are far ahead: a digit that lies across patches is seen whole."
    ]
    figure = _figure(image[0, 0], lower_right, there[-1, 1:], accuracy, local_accuracy)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _size(model: Vit) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _figure(image: Tensor, plain: Tensor, local: Tensor, accuracy: float, local_accuracy: float) -> LabFigure:
    figure, axes = draw.panels(3, height=3.2, widths=(1, 1.2, 1.2))
    axes[0].imshow(image.numpy(), cmap="Greys", vmin=-0.3, vmax=1.1)
    for at in range(PATCH, SIDE, PATCH):
        axes[0].axhline(at - 0.5, color=draw.ORANGE, linewidth=0.9)
        axes[0].axvline(at - 0.5, color=draw.ORANGE, linewidth=0.9)
    draw.style(axes[0], "4 × 4 patches", "pixel", "pixel")
    axes[0].grid(visible=False)
    named = (("Plain: lower right looks", plain), ("SPT + LSA: lower right", local))
    for place, (title, weights) in zip(axes[1:], named, strict=True):
        draw.heatmap(figure, place, 100 * weights.unflatten(0, (4, 4)), title=title, xlabel="patch, column",
                     ylabel="patch, row", write=".0f", label="weight (%)")  # fmt: skip
        place.set_xticks(range(4))
        place.set_yticks(range(4))
    alt = (
        "Three panels: a digit of 8 × 8 pixels cut into 4 × 4 patches; the weights with which its lower-right patch"
        f" attends to all patches, from {100 * float(plain.min()):.1f} to {100 * float(plain.max()):.1f} percent in a"
        f" plain ViT ({accuracy:.1%} right); and the same with locality self-attention ({local_accuracy:.1%} right),"
        " where its own weight is 0."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="patches",
    chapter=9,
    title="an image as words",
    claim="Cutting an image into patches and projecting them is one convolution whose stride is its size; every patch"
    " then sees all others at once, except itself under LSA; a two-layer ViT with both reads 8 × 8 digits.",
    slides=(Slide("002", "p. 49–50"), Slide("003", "digit", 73), Slide("003", "ViT", 297), Slide("004", "p. 59", 721)),
    parameters=PatchesParameters,
    run=run,
    mechanism=("config", "tokens", "looks"),
    exercise=Exercise(
        function="headway.nn.patches:patchify",
        task="Cut images into patches of P × P pixels: a row of the result for each patch, row by row, with its"
        " pixels row by row and the channels last. patch_grid gives rows and columns of patches.",
        hints=(
            "Split the height into (rows, P) and the width into (columns, P) by unflatten.",
            "The order of the axes has to be B, rows, columns, P, P, C.",
            "permute(0, 2, 4, 3, 5, 1) of B C rows P columns P, then flatten the last three, and rows with columns.",
        ),
        bugs=(
            PlantedBug(
                right="permute(0, 2, 4, 3, 5, 1)",
                wrong="permute(0, 2, 4, 5, 3, 1)",
                fails="patches through a matrix",
                hint="Pixels row by row: is that so inside of a patch?",
            ),
        ),
    ),
)
