"""How much the last state still feels of an input k steps back: recurrent cells, attention, and both together.

The gradient of the last state by an input k steps back is a product of k Jacobians in a recurrent network, and one
step in attention. Measured at initialisation, on headway's layers. A recurrent decoder that attends to its encoder's
states (the RNN of deck 002) has the short way, too. And an LSTM whose forget gates are open from the start keeps its
gradient: vanishing is where training begins, not a law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, within
from headway.nn import Alignment, AlignmentConfig, AttentionConfig, LayerContext, Recurrent, RecurrentConfig
from headway.nn.context import NO_POSITIONS
from headway.nn.recurrent import Cell
from headway.ops import Causal
from headway.plots import lab_figures as draw

WIDTH = 32
NEAR, FAR = 10, 50
ROWS, QUICK_ROWS = 16, 4
OPEN = 6.0  # bias of forget gates that are open: sigmoid(6) = .9975
LastState = Callable[[Tensor], Tensor]  # (B, T, D) -> the last state (B, D)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceParameters:
    """The text."""

    words: int = 64  # inputs

    def __post_init__(self) -> None:
        positive("--words", self.words)
        if not FAR + 4 <= self.words <= 512:
            raise ConfigError(f"--words {self.words}: expected {FAR + 4} to 512; inputs {FAR} back are compared")


def recurrent(cell: Cell, *, open_gates: bool = False) -> Recurrent:
    """A layer with torch's initialisation, in float64."""
    layer = Recurrent(WIDTH, RecurrentConfig(hidden=WIDTH, cell=cell)).double()
    if open_gates:  # i, f, g, o: the second quarter are the forget gates
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                if name.endswith("bias_ih_l0"):
                    parameter[WIDTH : 2 * WIDTH] = OPEN
    return layer


def states(layer: Recurrent, x_BTD: Tensor) -> Tensor:
    """All states of a recurrent layer (B, T, D)."""
    found, _ = layer(x_BTD, layer.start(x_BTD, len(x_BTD)))
    return cast(Tensor, found)


def attended(x_BTD: Tensor, layer: nn.Module) -> Tensor:
    """The last output of causal self-attention (B, D)."""
    out: Tensor = layer(x_BTD, LayerContext(positions=NO_POSITIONS, mask=Causal()))
    return out[:, -1]


def models() -> dict[str, LastState]:
    """What makes a last state of a text."""
    rnn, gru, lstm = (recurrent(cell) for cell in ("rnn", "gru", "lstm"))
    gated, encoder = recurrent("lstm", open_gates=True), recurrent("gru")
    attention = AttentionConfig(width=WIDTH, heads=4).build().double()
    alignment = Alignment(WIDTH, WIDTH, AlignmentConfig(kind="multiplicative", width=WIDTH)).double()

    def peeking(x: Tensor) -> Tensor:
        memory = states(encoder, x)
        found: Tensor = alignment(memory[:, -1:], alignment.prepare(memory, None))
        return found[:, 0]

    return {
        "RNN": lambda x: states(rnn, x)[:, -1],
        "GRU": lambda x: states(gru, x)[:, -1],
        "LSTM": lambda x: states(lstm, x)[:, -1],
        "LSTM, forget gates open": lambda x: states(gated, x)[:, -1],
        "GRU that attends to its states": peeking,
        "self-attention": lambda x: attended(x, attention),
    }


def gradients(last_state: LastState, x_BTD: Tensor, towards: Tensor) -> list[float]:
    """The size of the gradient of towards·(last state) by the input k steps back, k = 0 …; mean over the rows."""
    x = x_BTD.clone().requires_grad_()
    (back,) = torch.autograd.grad((last_state(x) * towards).sum(), x)
    sizes: list[float] = back.norm(dim=-1).mean(0).flip(0).tolist()
    return sizes


def run(parameters: DistanceParameters, seed: int, quick: bool) -> LabOutcome:
    """Gradients by distance."""
    generator = torch.Generator().manual_seed(seed)
    rows = QUICK_ROWS if quick else ROWS
    x = torch.randn(rows, parameters.words, WIDTH, generator=generator, dtype=torch.float64)
    towards = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    towards = towards / towards.norm(dim=-1, keepdim=True)
    found = {name: gradients(model, x, towards) for name, model in models().items()}
    ratio = {name: sizes[FAR] / sizes[NEAR] if sizes[NEAR] else math.nan for name, sizes in found.items()}
    checks = [
        at_most(f"RNN: gradient of an input {FAR} back", found["RNN"][FAR], 1e-12),
        at_most(f"GRU: gradient of an input {FAR} back", found["GRU"][FAR], 1e-8),
        at_most(f"LSTM: gradient of an input {FAR} back", found["LSTM"][FAR], 1e-8),
        within(f"self-attention: gradient {FAR} back over that {NEAR} back", ratio["self-attention"], 1 / 3, 3.0),
        at_least(f"self-attention: gradient of an input {FAR} back", found["self-attention"][FAR], 1e-3),
        within(f"GRU that attends: gradient {FAR} back over that {NEAR} back", ratio["GRU that attends to its states"],
               1 / 3, 3.0),
        at_least(f"LSTM with open forget gates: gradient {FAR} back over that {NEAR} back",
                 ratio["LSTM, forget gates open"], 0.05),
    ]  # fmt: skip
    at = [0, 1, 5, NEAR, 20, 30, FAR]
    tables = [
        LabTable(
            title=f"size of the gradient of the last of {parameters.words} states by the input k back, as initialised",
            header=("", *(f"{k} back" for k in at)),
            rows=[(name, *(sizes[k] for k in at)) for name, sizes in found.items()],
        )
    ]
    notes = [
        "A recurrent state passes through every step between; attention reaches every input in one. This is deck 002's"
        " “gradients better behaved” and deck 004's “linear interaction distance”. It is not a law: an LSTM with open"
        f" forget gates has {ratio['LSTM, forget gates open']:.2g} times the gradient {FAR} steps back that it has"
        f" {NEAR} back, which is why their bias is often set to 1 or more (Gers et al. 2000)."
    ]
    return LabOutcome(tables=tables, figures=[_figure(found)], checks=checks, notes=notes)


def _figure(found: dict[str, list[float]]) -> LabFigure:
    figure, (axes,) = draw.panels(1, height=4.2)
    for number, (name, sizes) in enumerate(found.items()):
        draw.line(axes, range(len(sizes)), sizes, name, number, markers=False)
    axes.set_yscale("log")
    axes.set_ylim(1e-22, 10)
    draw.style(axes, "What is left of an input", "steps back", "gradient of the last state (norm)", legend="lower left")
    alt = (
        "Gradient of the last state against how many steps back the input is, logarithmic. "
        + ", ".join(f"{name} {sizes[FAR]:.0e}" for name, sizes in found.items())
        + f" at {FAR} steps back: recurrent cells fall by orders of magnitude, attention is level."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="distance",
    chapter=4,
    title="how far back a gradient reaches",
    claim="As initialised, the gradient of a recurrent state fades exponentially with the distance of the input, while"
    " attention reaches every input in one step; open forget gates keep an LSTM's gradient alive, too.",
    slides=(Slide("002", "p. 25–26"), Slide("004", "p. 3", 20)),
    parameters=DistanceParameters,
    run=run,
    mechanism=("states", "attended", "recurrent", "gradients"),
    exercise=Exercise(
        function="gradients",
        task="Differentiate towards·(last state), summed over the rows, by all inputs, and take the size of what"
        " reaches each input; the input nearest to the end first.",
        hints=(
            "Inputs need requires_grad; torch.autograd.grad gives a tensor of the shape of x.",
            "The size at a place is the norm over its features; then the mean over the rows.",
            "k = 0 is the last input: flip the places.",
        ),
        bugs=(
            PlantedBug(
                right=".flip(0)",
                wrong="",
                fails="RNN: gradient",
                hint="Which input is 0 steps back?",
            ),
        ),
    ),
)
