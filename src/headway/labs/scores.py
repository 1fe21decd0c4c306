"""Five ways to score a pair of states, three uses of what is attended to, and the hard choice that cannot learn.

Keys and queries compared as they are, by two matrices, by one, through a sigmoid, or by a small network (deck 002,
pages 17 to 24); the attended vector joined to the output, given to the second layer, or to the next input. All solve
the same task: writing a row of digits again. Hard attention, the best state alone, passes no gradient to its scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most
from headway.models import RnnSeq2Seq, RnnSeq2SeqConfig, build_model
from headway.models.rnn_seq2seq import ContextUse
from headway.nn import Alignment, AlignmentConfig, RecurrentConfig
from headway.nn.rnn_attention import AlignmentKind
from headway.plots import lab_figures as draw

KINDS: tuple[AlignmentKind, ...] = get_args(AlignmentKind)
USES: tuple[ContextUse, ...] = get_args(ContextUse)
NAMES = {"readout": "to the output", "next_layer": "to the second layer", "input": "to the next input"}
DIGITS, EOS, START = 10, 10, 11
HIDDEN, LONGEST = 32, 5
BATCH, TESTED = 64, 500
QUICK_STEPS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresParameters:
    """Training."""

    steps: int = 600  # of each of the fifteen models

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Digits with EOS (B, L + 1), and the decoder's inputs START, digits."""
    digits = torch.randint(DIGITS, (count, length), generator=generator)
    source = torch.cat([digits, torch.full((count, 1), EOS)], 1)
    return source, torch.cat([torch.full((count, 1), START), digits], 1)


def scoring(kind: AlignmentKind, *, hard: bool = False) -> AlignmentConfig:
    """The attention of a model."""
    return AlignmentConfig(kind=kind, width=HIDDEN, hard=hard)


def train(attention: AlignmentConfig, use: ContextUse, steps: int, seed: int, what: str) -> float:
    """An LSTM with this attention, trained on rows of 1 to 5 digits -> the share of digits right at 5."""
    config = RnnSeq2SeqConfig(
        vocab=START + 1, width=16,
        encoder=RecurrentConfig(hidden=HIDDEN // 2, cell="lstm", bidirectional=True),
        decoder=RecurrentConfig(hidden=HIDDEN, cell="lstm", layers=2 if use == "next_layer" else 1),
        attention=attention, context=(use,),
    )  # fmt: skip
    model = cast(RnnSeq2Seq, build_model(config, seed=seed))
    generator = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        length = int(torch.randint(1, LONGEST + 1, (1,), generator=generator))
        source, inputs = rows(BATCH, length, generator)
        return F.cross_entropy(model(source, inputs).flatten(0, 1), source.flatten())

    fit(model.parameters(), loss, steps=steps, learning_rate=0.01, what=what, clip=1.0)
    source, inputs = rows(TESTED, LONGEST, generator)
    with torch.no_grad():
        said = model.eval()(source, inputs).argmax(-1)
    return float((said == source)[:, :LONGEST].float().mean())


def layer(kind: AlignmentKind, *, hard: bool = False) -> Alignment:
    """An attention over states of 12 numbers, in float64."""
    return Alignment(12, 12, AlignmentConfig(kind=kind, width=12, hard=hard)).double()


@torch.no_grad()
def bilinear_is_multiplicative(memory: Tensor, states: Tensor) -> float:
    """The largest difference of both where W_e = W_kᵀ W_q."""
    two, one = layer("multiplicative"), layer("bilinear")
    assert two.key is not None
    assert two.query is not None
    assert one.query is not None
    one.query.weight.copy_(two.key.weight.mT @ two.query.weight)
    if one.query.bias is not None:
        one.query.bias.zero_()
    found = [each(states, each.prepare(memory, None)) for each in (two, one)]
    return float((found[0] - found[1]).abs().max())


@torch.no_grad()
def equal_keys(kind: AlignmentKind, states: Tensor) -> float:
    """How far from the mean of the values the result is where all states of the source are equal but in value."""
    made = layer(kind)
    source = made.prepare(torch.randn(2, 1, 12, dtype=torch.float64).expand(2, 6, 12), None)
    values = torch.randn(2, 6, 12, dtype=torch.float64)
    found = made(states, type(source)(source.keys, values, source.real))
    return float((found - values.mean(1, keepdim=True)).abs().max())


def gradient_of_scores(memory: Tensor, states: Tensor, *, hard: bool) -> float:
    """The largest gradient that reaches the matrices of the score."""
    made = layer("multiplicative", hard=hard)
    assert made.key is not None
    assert made.query is not None
    memory = memory.clone().requires_grad_()  # the values have a gradient in any case
    made(states, made.prepare(memory, None)).square().sum().backward()
    grads = [matrix.weight.grad for matrix in (made.key, made.query)]
    return max(0.0 if grad is None else float(grad.abs().max()) for grad in grads)


def run(parameters: ScoresParameters, seed: int, quick: bool) -> LabOutcome:
    """The formulas, and the grid of kinds and uses."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    memory, states = torch.randn(2, 2, 6, 12, dtype=torch.float64)
    same = bilinear_is_multiplicative(memory, states)
    mean = max(equal_keys(kind, states) for kind in KINDS)
    gradients = {hard: gradient_of_scores(memory, states, hard=hard) for hard in (False, True)}
    tried = [(kind, use) for kind in KINDS for use in USES]
    if quick:
        tried = [("multiplicative", "readout"), ("additive", "readout")]
    grid = {pair: train(scoring(pair[0]), pair[1], steps, seed, f"training, {pair[0]}, {pair[1]}") for pair in tried}
    hard = train(scoring("multiplicative", hard=True), "readout", steps, seed, "training, hard")
    least = min(grid, key=lambda pair: grid[pair])
    soft = grid["multiplicative", "readout"]
    checks = [
        at_most("bilinear = multiplicative with W_e = W_kᵀW_q, largest difference", same, 1e-10),
        at_most("equal keys give the mean of the values, all kinds, largest difference", mean, 1e-10),
        at_most("hard: gradient that reaches the scores", gradients[True], 0.0),
        at_least("soft: gradient that reaches the scores", gradients[False], 1e-3),
        at_least("every soft kind and use: digits right, the least", grid[least], 0.75 if quick else 0.9),
        at_least("soft over hard after the same training: digits right", soft - hard, 0.01),
    ]  # fmt: skip
    kinds = [kind for kind in KINDS if any(pair[0] == kind for pair in grid)]
    uses = [use for use in USES if any(pair[1] == use for pair in grid)]
    tables = [
        LabTable(
            title=f"digits right in rows of {LONGEST}, {steps} steps",
            header=("score", *(NAMES[use] for use in uses)),
            rows=[
                *((kind, *(grid[kind, use] for use in uses)) for kind in kinds),
                ("multiplicative, hard", hard, *[""] * (len(uses) - 1)),
            ],
            note="identity h·s; multiplicative W_k h · W_q s; bilinear hᵀW_e s; learned σ(W_k h + b)·σ(W_q s + b),"
            " values W_v h; additive w·tanh(W_k h + W_q s).",
        )
    ]
    notes = [
        f"All fifteen work; the least is {least[0]}, {NAMES[least[1]]}, with {grid[least]:.1%}. Argmax is not a soft"
        f" choice: the gradient of the scores is exactly 0, and after the same training {hard:.0%} of the digits are"
        f" right instead of {soft:.0%}. What it learns, it learns by moving the states that are scored."
    ]
    return LabOutcome(tables=tables, figures=[_figure(grid, kinds, uses, hard)], checks=checks, notes=notes)


def _figure(
    grid: dict[tuple[AlignmentKind, ContextUse], float],
    kinds: list[AlignmentKind],
    uses: list[ContextUse],
    hard: float,
) -> LabFigure:
    figure, (axes,) = draw.panels(1, height=4.0)
    cells = [[100 * grid[kind, use] for use in uses] for kind in kinds]
    cells.append([100 * hard] + [float("nan")] * (len(uses) - 1))
    draw.heatmap(
        figure, axes, cells, title="Digits right by score and by use of the context",
        xlabel="where the attended vector goes", ylabel="score", rows=[*kinds, "hard choice"],
        columns=[NAMES[use] for use in uses], write=".1f", label="% of digits right", limit=100.0,
    )  # fmt: skip
    for text in axes.texts:
        if text.get_text() == "nan":
            text.set_text("")
    shares = [*grid.values()]
    alt = (
        f"A grid of {len(kinds)} kinds of scores by {len(uses)} uses of the attended vector: between {min(shares):.1%}"
        f" and {max(shares):.1%} of the digits are right. Hard attention, one cell below, has {hard:.1%}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="scores",
    chapter=4,
    title="five scores, three uses, one that cannot learn",
    claim="Identity, multiplicative, bilinear, learned and additive scores all align a decoder with its source,"
    " whichever way the attended vector is used; bilinear is multiplicative, and a hard choice passes no gradient.",
    slides=(Slide("002", "p. 15–24"),),
    parameters=ScoresParameters,
    run=run,
    mechanism=("scoring", "layer"),
    exercise=Exercise(
        function="headway.nn.rnn_attention:Alignment.forward",
        cut=("query = states_BTW", "scores = query @"),
        task="Make `query` and `scores` (B, T, S) of the states and of source.keys (B, S, width). self.query, a"
        " linear layer, and self.energy, a vector, are None where the kind has none; the class"
        " AlignmentConfig has the five formulas.",
        hints=(
            'Without self.query the states are the queries; the kind "learned" puts a sigmoid behind the layer.',
            "With an energy, the score is energy·tanh(query + key) of each pair: unsqueeze both to (B, T, S, width).",
            "In all other kinds the score is the dot product of query and key.",
        ),
        bugs=(
            PlantedBug(
                right="query @ source.keys.mT",
                wrong="query @ source.values.mT",
                fails="bilinear = multiplicative",
                hint="What is compared with the query?",
            ),
            PlantedBug(
                right="if self.hard:",
                wrong="if not self.hard:",
                fails="hard: gradient",
                hint="Where does the gradient end, and for whom?",
            ),
        ),
    ),
)
