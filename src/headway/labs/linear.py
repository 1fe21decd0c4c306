"""Self-attention without a network between is linear in its values: exclusive or, with and without, at any depth.

A layer of attention gives each token a weighted mean of W·x. For one token the weight is 1: any number of such layers
is one linear map, and exclusive or of two features cannot be learned. A position-wise network can. The weights
themselves do depend on the inputs, so that over several tokens attention alone is not linear as a whole: given the two
bits as two tokens, it learns exclusive or by its softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals
from headway.nn import AttentionConfig, BlockConfig, FeedForwardConfig, Stack, StackConfig
from headway.plots import lab_figures as draw

WIDTH, HEADS = 16, 2
DEPTHS, QUICK_DEPTHS = (1, 2, 4, 8), (1, 4)
QUICK_STEPS = 300
POINTS = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
TARGETS = torch.tensor([0.0, 1.0, 1.0, 0.0])
EDGE, CELLS = 1.6, 40  # of the plane that is drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearParameters:
    """Training."""

    steps: int = 600  # of each model

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        if self.steps > 20_000:
            raise ConfigError(f"--steps {self.steps}: expected at most 20,000")


def stack(layers: int, *, network: bool) -> Stack:
    """Blocks of self-attention with a residual, and a position-wise network where asked for; no norm."""
    block = BlockConfig(
        attention=AttentionConfig(width=WIDTH, heads=HEADS),
        feedforward=FeedForwardConfig(inner=2 * WIDTH) if network else None,
        norm=None,
    )
    return StackConfig(layers=layers, block=block, context=4).build()


class XorModel(nn.Module):
    """A linear input, a stack, and a linear output read at the last token."""

    def __init__(self, layers: int, *, network: bool, features: int) -> None:
        super().__init__()
        self.input, self.stack = nn.Linear(features, WIDTH), stack(layers, network=network)
        self.output = nn.Linear(WIDTH, 1)

    def forward(self, x_BTN: Tensor) -> Tensor:
        """(B, T, features) -> logits (B,)."""
        return self.output(self.stack(self.input(x_BTN))[:, -1])[:, 0]  # type: ignore[no-any-return]


def one_token(points: Tensor) -> Tensor:
    """Both bits as two features of one token (B, 1, 2)."""
    return points.unsqueeze(1)


def two_tokens(points: Tensor) -> Tensor:
    """Each bit as a token, which also says which of the two it is, and a token that asks: (B, 3, 4)."""
    kind = torch.eye(3).expand(len(points), -1, -1)
    bits = F.pad(points, (0, 1)).unsqueeze(-1)
    return torch.cat([bits, kind], -1)


def train(model: XorModel, inputs: Tensor, steps: int, what: str) -> float:
    """Train on the four points -> the loss in nats at the end."""

    def loss(step: int) -> Tensor:
        return F.binary_cross_entropy_with_logits(model(inputs), TARGETS)

    fit(model.parameters(), loss, steps=steps, learning_rate=0.01, what=what, clip=1.0)
    with torch.no_grad():
        return float(loss(steps))


@torch.no_grad()
def superposition(layers: int, generator: torch.Generator, *, held: bool) -> float:
    """How far f(2x − 3y) is from 2f(x) − 3f(y) for attention without biases; `held`: with queries and keys fixed."""
    block = BlockConfig(
        attention=AttentionConfig(width=WIDTH, heads=HEADS, bias=False), feedforward=None, norm=None, residual="none"
    )
    model = StackConfig(layers=layers, block=block, context=8).build().double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    for each in model.blocks if held else ():
        for tap in (each.attention.tap_q, each.attention.tap_k):  # type: ignore[union-attr]
            fixed = torch.randn(1, HEADS, 5, WIDTH // HEADS, generator=generator, dtype=torch.float64)
            tap.register_forward_hook(lambda tap, inputs, out, fixed=fixed: fixed)  # type: ignore[union-attr]
    x, y = torch.randn(2, 1, 5, WIDTH, generator=generator, dtype=torch.float64)
    both = model(2 * x - 3 * y)
    return float((both - (2 * model(x) - 3 * model(y))).abs().max() / both.abs().max())


def run(parameters: LinearParameters, seed: int, quick: bool) -> LabOutcome:
    """Exclusive or by depth, with and without the network; superposition; two tokens."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    generator = torch.Generator().manual_seed(seed)
    depths = QUICK_DEPTHS if quick else DEPTHS
    losses: dict[tuple[bool, int], float] = {}
    models: dict[tuple[bool, int], XorModel] = {}
    for depth in depths:
        for network in (False, True):
            model = XorModel(depth, network=network, features=2)
            name = f"training, {depth} layers, {'with' if network else 'without'} network"
            losses[network, depth] = train(model, one_token(POINTS), steps, name)
            models[network, depth] = model
    split = train(XorModel(2, network=False, features=4), two_tokens(POINTS), steps, "training, two tokens")
    linear = {held: superposition(4, generator, held=held) for held in (True, False)}
    chance = math.log(2)
    checks = [
        equals("attention alone, one token: loss at every depth, the farthest from ln 2",
               max((losses[False, depth] for depth in depths), key=lambda loss: abs(loss - chance)), chance, 1e-4),
        at_most("with the network: largest loss", max(losses[True, depth] for depth in depths), 0.01),
        at_most("f(2x − 3y) = 2f(x) − 3f(y) with the weights held, four layers, relative difference", linear[True],
                1e-10),
        at_least("the same with weights that follow the inputs: no longer linear", linear[False], 1e-2),
        at_most("attention alone, each bit a token of its own: loss", split, 0.1),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"exclusive or after {steps} steps: loss in nats (ln 2 = {chance:.4f} is chance)",
            header=("layers", "attention alone", "with the network"),
            rows=[(depth, losses[False, depth], losses[True, depth]) for depth in depths],
        ),
        LabTable(
            title="what is linear, four layers",
            header=("attention", "relative difference of f(2x − 3y) from 2f(x) − 3f(y)"),
            rows=[("weights held", linear[True]), ("weights follow the inputs", linear[False])],
        ),
    ]
    notes = [
        "Deck 002 is right that attention is linear in its values, and that depth does not help a token then. It is not"
        f" linear in its inputs: with each bit a token of its own, two layers of attention alone reach {split:.3f}"
        " nats, since the softmax compares the tokens."
    ]
    deepest = depths[-1]
    figure = _figure(losses, {net: models[net, deepest] for net in (False, True)}, depths)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


@torch.no_grad()
def _figure(losses: dict[tuple[bool, int], float], models: dict[bool, XorModel], depths: tuple[int, ...]) -> LabFigure:
    figure, (left, middle, right) = draw.panels(3, height=3.4, widths=(1, 1.15, 1.15))
    for number, network in enumerate((False, True)):
        name = "with the network" if network else "attention alone"
        draw.line(left, depths, [max(losses[network, depth], 1e-6) for depth in depths], name, number)
    draw.reference(left, math.log(2), "ln 2, chance")
    left.set_ylim(-0.04, 1.0)
    draw.style(left, "Exclusive or", "layers", "loss (nats)", legend="upper right")
    axis = torch.linspace(-EDGE, EDGE, CELLS)
    grid = torch.cartesian_prod(axis, axis)
    for axes, network in ((middle, False), (right, True)):
        shares = models[network](one_token(grid)).sigmoid().view(CELLS, CELLS).mT.flip(0)
        title = f"{depths[-1]} layers, {'with network' if network else 'alone'}"
        draw.heatmap(figure, axes, shares, title=title, xlabel="first bit", ylabel="second bit", limit=1.0,
                     label="probability of 1")  # fmt: skip
        ticks = [float((each + EDGE) / (2 * EDGE) * (CELLS - 1)) for each in (-1.0, 1.0)]
        axes.set_xticks(ticks, ["−1", "1"])
        axes.set_yticks([CELLS - 1 - tick for tick in ticks], ["−1", "1"])
    alt = (
        f"Left: loss of exclusive or by depth; attention alone stays at ln 2 = {math.log(2):.4f}, with the network it"
        f" is {losses[True, depths[-1]]:.1e}. Middle and right: the probability over the plane of the two bits: one"
        " flat or straight slope for attention alone, two corners against two with the network."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="linear",
    chapter=5,
    title="attention needs a network between",
    claim="Attention is linear in its values, so that for a token by itself any depth of it stays at chance (ln 2) on"
    " exclusive or while a position-wise network solves it; as a function of several tokens it is not linear.",
    slides=(Slide("002", "p. 40–42"), Slide("004", "p. 39", 502)),
    parameters=LinearParameters,
    run=run,
    mechanism=("stack", "superposition"),
    exercise=Exercise(
        function="superposition",
        cut=("both =", "return float("),
        task="f is linear if f(2x − 3y) = 2f(x) − 3f(y). Return the largest difference of the two sides, over the"
        " largest entry of the left one.",
        hints=(
            "The model takes x and y as they are: (1, 5, WIDTH).",
            "Both differences and entries are taken by their size: abs().max().",
            "float((both − right-hand side).abs().max() / both.abs().max()).",
        ),
        bugs=(
            PlantedBug(
                right="2 * model(x) - 3 * model(y)",
                wrong="2 * model(x) + 3 * model(y)",
                fails="f(2x − 3y)",
                hint="Write down both sides of the equation.",
            ),
            PlantedBug(
                right="if held else ()",
                wrong="if not held else ()",
                fails="f(2x − 3y)",
                hint="When are the weights held?",
            ),
        ),
    ),
)
