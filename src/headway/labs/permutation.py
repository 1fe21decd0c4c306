"""The derivation that attention does not know the order of its inputs, each line as a number, and what breaks it.

attn(PX) = P·attn(X) for every permutation matrix P: the outputs move with the inputs (equivariance). The mean over
words does not change at all (invariance). Any positional encoding, a causal mask or a window breaks both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals
from headway.models import Bert, BertConfig, build_model
from headway.nn import (
    T5,
    AlibiBias,
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    Fraction,
    Learned,
    RawIndex,
    Rotary,
    Saturating,
    Shaw,
    Sine,
    SineCosine,
    Sinusoidal,
    Stack,
    StackConfig,
)
from headway.nn.positions import EncoderPosition
from headway.ops import Causal, Mask, Window, attend
from headway.plots import lab_figures as draw

WIDTH, HEADS = 16, 4
POSITIONS: dict[str, EncoderPosition] = {
    "raw index": RawIndex(),
    "fraction": Fraction(),
    "tanh": Saturating(tau=3.0),
    "sine": Sine(),
    "sine and cosine": SineCosine(),
    "sinusoids": Sinusoidal(),
    "learned": Learned(),
    "rotary": Rotary(),
    "ALiBi": AlibiBias(),
    "T5": T5(buckets=8, distance=6),
    "Shaw": Shaw(reach=3),
}
MASKS: dict[str, Mask] = {"causal mask": Causal(), "window of 1": Window(1)}
PAIRS = (  # two sentences with the same words, and a word that both have
    ("The dog licks the owner", "The owner licks the dog", "dog"),
    ("the person ate a fish", "a fish ate the person", "fish"),
    ("Amy likes Bob", "Bob likes Amy", "Amy"),
)
EXAMPLE = ((0, 1, 0), (1, 0, 0), (0, 0, 1))  # the slides' second example
FLOOR = 1e-17  # drawn for 0 on a logarithmic axis


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationParameters:
    """The inputs."""

    tokens: int = 7  # rows of X

    def __post_init__(self) -> None:
        positive("--tokens", self.tokens)
        if not 4 <= self.tokens <= 64:
            raise ConfigError(f"--tokens {self.tokens}: expected 4 to 64")


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(QKᵀ/√d)V, by `headway.attend`; (T, E) each."""
    return attend(q[None, None], k[None, None], v[None, None])[0, 0]


def derivation(x: Tensor, p: Tensor, matrices: Tensor) -> dict[str, Tensor]:
    """What stands on the right of each line of the slides, for X (T, D), P (T, T) and θ_Q, θ_K, θ_V (3, D, D)."""
    q, k, v = (x @ matrix for matrix in matrices)
    root = math.sqrt(q.shape[1])

    def softmax(scores: Tensor) -> Tensor:
        return scores.softmax(-1)  # over each row

    return {
        "softmax((PQ)(PK)ᵀ/√d)(PV)": softmax((p @ q) @ (p @ k).mT / root) @ (p @ v),
        "softmax(P Q(PK)ᵀ/√d)(PV)": softmax(p @ (q @ (p @ k).mT) / root) @ (p @ v),
        "softmax(P Q(KᵀPᵀ)/√d)(PV)": softmax(p @ (q @ (k.mT @ p.mT)) / root) @ (p @ v),
        "softmax(P QKᵀ/√d Pᵀ)(PV)": softmax(p @ (q @ k.mT / root) @ p.mT) @ (p @ v),
        "P softmax(QKᵀ/√d Pᵀ)(PV)": p @ softmax((q @ k.mT / root) @ p.mT) @ (p @ v),
        "P softmax(QKᵀ/√d) Pᵀ(PV)": p @ softmax(q @ k.mT / root) @ p.mT @ (p @ v),
        "P softmax(QKᵀ/√d) V": p @ softmax(q @ k.mT / root) @ v,
        "P attn(X)": p @ attention(q, k, v),
    }


def stack(position: EncoderPosition | None, generator: torch.Generator) -> Stack:
    """Two layers in float64, every parameter random, so that nothing hides behind a start at 0 or 1."""
    block = BlockConfig(
        attention=AttentionConfig(width=WIDTH, heads=HEADS),
        feedforward=FeedForwardConfig(inner=2 * WIDTH, activation="gelu"),
        place="post",  # a code that is equal in all features is lost in a norm before attention
    )
    made = StackConfig(layers=2, block=block, context=64, position=position).build().double().eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return made


@torch.no_grad()
def broken_by(model: Stack, x: Tensor, order: Tensor, mask: Mask | None = None) -> tuple[float, float]:
    """How far f(PX) is from P f(X), and the mean over the rows of f(PX) from that of f(X)."""
    before, after = model(x[None], mask=mask)[0], model(x[order][None], mask=mask)[0]
    return float((after - before[order]).abs().max()), float((after.mean(0) - before.mean(0)).abs().max())


@torch.no_grad()
def word_differs(first: str, second: str, word: str, position: EncoderPosition | None, seed: int) -> float:
    """The largest difference of a word's vector in the two sentences, in a BERT of two layers."""
    words = sorted({*first.lower().split(), *second.lower().split()})
    config = BertConfig(vocab=len(words), context=16, width=32, layers=2, heads=4, inner=64, position=position)
    model = cast(Bert, build_model(replace(config, init_std=0.3), seed=seed)).eval()
    found = []
    for sentence in (first.lower().split(), second.lower().split()):
        vectors = model(torch.tensor([[words.index(each) for each in sentence]]))[0]
        found.append(vectors[sentence.index(word.lower())])
    return float((found[0] - found[1]).abs().max())


def run(parameters: PermutationParameters, seed: int, quick: bool) -> LabOutcome:
    """Each line of the derivation, P by hand, and what breaks equivariance."""
    count = parameters.tokens
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, WIDTH, generator=generator, dtype=torch.float64)
    matrices = torch.randn(3, WIDTH, WIDTH, generator=generator, dtype=torch.float64) / math.sqrt(WIDTH)
    order = torch.randperm(count, generator=generator).roll(1)
    while bool((order == torch.arange(count)).any()) or bool((order[order] == torch.arange(count)).all()):
        order = torch.randperm(count, generator=generator)  # moves every row, and is more than swaps
    p = torch.eye(count, dtype=torch.float64)[order]
    expected = attention(*(p @ x @ matrix for matrix in matrices))
    residuals = {line: float((found - expected).abs().max()) for line, found in derivation(x, p, matrices).items()}
    moved = float((expected - attention(*(x @ matrix for matrix in matrices))).abs().max())

    plain = broken_by(stack(None, generator), x, order)
    breaks = {name: broken_by(stack(kind, generator), x, order)[0] for name, kind in POSITIONS.items()}
    breaks |= {name: broken_by(stack(None, generator), x, order, mask)[0] for name, mask in MASKS.items()}
    sentences = {
        (first, second, word): tuple(word_differs(first, second, word, kind, seed) for kind in (None, Sinusoidal()))
        for first, second, word in PAIRS
    }
    example = torch.tensor(EXAMPLE, dtype=torch.float64)
    by_hand = (example @ torch.tensor([3.0, 4.0, 5.0], dtype=torch.float64)).tolist()
    square = float((p @ p - torch.eye(count, dtype=torch.float64)).abs().max())
    checks = [
        at_most("the slides' P takes [3 4 5] to [4 3 5], largest difference",
                max(abs(a - b) for a, b in zip(by_hand, (4.0, 3.0, 5.0), strict=True)), 0.0),
        at_most("PᵀP = I, largest difference", float((p.mT @ p - torch.eye(count)).abs().max()), 0.0),
        equals("PP = I only where P swaps pairs; largest difference for this P", square, 1.0),
        at_most("each of the eight lines = attn(PX), largest difference", max(residuals.values()), 1e-12),
        at_least("attention is not invariant: change of its rows when the inputs move", moved, 1e-2),
        at_most("stack without positions: f(PX) = P f(X), largest difference", plain[0], 1e-12),
        at_most("its mean over the words is invariant, largest difference", plain[1], 1e-12),
        at_least("each position, causal mask and window breaks f(PX) = P f(X), least difference", min(breaks.values()),
                 1e-3),
        at_most("dog, fish and Amy have one vector in both sentences, without positions, largest difference",
                max(found[0] for found in sentences.values()), 1e-5),
        at_least("with sinusoids they have two, least difference", min(found[1] for found in sentences.values()), 1e-2),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="the derivation: attn(PX) =",
            header=("line", "right-hand side", "largest difference from attn(PX)"),
            rows=[(n, line, found) for n, (line, found) in enumerate(residuals.items(), 1)],
            note="The step to line 5 holds since the softmax is taken of each row by itself; the last uses PᵀP = I.",
        ),
        LabTable(
            title="what breaks f(PX) = P f(X)",
            header=("a stack with", "largest difference"),
            rows=[("nothing: no positions, no mask", plain[0]), *breaks.items()],
            note="T5 and Shaw add to a score, or to keys and values, what they learned for the distance of two words; a"
            " window of 1 lets a word see itself and its two neighbours; rotary is RoPE, the position of RoFormer. A"
            " causal mask lets a model notice order without any positions.",
        ),
        LabTable(
            title="one word in two sentences, BERT of two layers",
            header=("sentences", "word", "difference without positions", "difference with sinusoids"),
            rows=[(f"{first} / {second}", word, *found) for (first, second, word), found in sentences.items()],
            note="In float32, whose rounding is about 1e-7: the first column is rounding. The tables above are in"
            " float64, with rounding of about 1e-16.",
        ),
    ]
    notes = [
        "The slides call f(PX) = P f(X) “order does matter” on one slide and “order does not matter” on another. Two"
        " things have to be told apart: equivariant, f(PX) = P f(X), the outputs move with the inputs; invariant,"
        " f(PX) = f(X), nothing changes. Attention is equivariant, its mean is invariant. P need not swap two rows: any"
        " reordering has PᵀP = I, which is all that is used.",
        "A recurrent network reads one word after another, and so has the order by construction. Self-attention has"
        " lost it, until a position, a mask or a window gives it back.",
    ]
    return LabOutcome(tables=tables, figures=[_figure(residuals, plain[0], breaks)], checks=checks, notes=notes)


def _figure(residuals: dict[str, float], plain: float, breaks: dict[str, float]) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=4.4)
    everything = {"no positions": plain, **breaks}
    for axes, bars, colour in ((left, residuals, draw.BLUE), (right, everything, draw.ORANGE)):
        values = [max(value, FLOOR) for value in bars.values()]
        axes.barh(range(len(bars)), values, color=[draw.BLUE if v < 1e-9 else colour for v in values], height=0.65)
        axes.set_yticks(range(len(bars)), [*bars])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlim(FLOOR, 100)
    draw.style(left, "Each line of the derivation", "largest difference from attn(PX)", "")
    draw.style(right, "What breaks it", "largest difference of f(PX) and P f(X)", "")
    left.tick_params(axis="y", labelsize=8.5)
    alt = (
        f"Two panels of bars, logarithmic. The eight lines of the derivation differ by at most"
        f" {max(residuals.values()):.0e}. A stack without positions keeps f(PX) = P f(X) to {plain:.0e}; each of"
        f" {len(breaks)} positional encodings and masks breaks it by {min(breaks.values()):.2g} or more."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="permutation",
    chapter=6,
    title="what a transformer knows of order: nothing",
    claim="Attention is equivariant, f(PX) = P f(X), so that without positions dog and owner have the same vectors"
    " in both sentences; its mean is invariant, and every positional encoding, causal mask or window breaks it.",
    slides=(
        Slide("000", "Positional Encoding 37–45", 1194),
        Slide("001", "Positional Encoding 37–45"),
        Slide("002", "p. 30"),
        Slide("004", "p. 21", 254),
    ),
    parameters=PermutationParameters,
    run=run,
    mechanism=("derivation", "attention", "broken_by", "stack", "word_differs"),
    exercise=Exercise(
        function="broken_by",
        task="Run the model on X and on PX, where `order` says which row comes where: PX is x[order]. Return the"
        " largest difference of f(PX) and P f(X), and of their means over the rows.",
        hints=(
            "The model takes a batch: x[None], and its answer without the batch is [0].",
            "P f(X) is the answer for X with its rows in the new order.",
            "float((after − before[order]).abs().max()) is the first of the two.",
        ),
        bugs=(
            PlantedBug(
                right="after - before[order]",
                wrong="after - before",
                fails="stack without positions",
                hint="Equivariant or invariant: which is asked for first?",
            ),
            PlantedBug(
                right="after.mean(0) - before.mean(0)",
                wrong="after - before",
                fails="its mean over the words",
                hint="What is invariant: the outputs, or something made of them?",
            ),
        ),
    ),
)
