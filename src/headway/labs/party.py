"""Three memories of one party: a sum, a sum that forgets, and attention.

Guests come one after another, the most remarkable one first. A sum keeps all of them with the same weight, forgetting
multiplies by γ for each later guest, attention weighs by scores. And a sum of T bound pairs in d numbers loses its
pairs as T/d grows: key and value are bound by circular convolution and found again by correlation (Plate 1995,
"Holographic Reduced Representations", sections II and III).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import (
    Lab,
    LabFigure,
    LabOutcome,
    LabTable,
    Slide,
    at_least,
    at_most,
    equals,
    within,
)
from headway.ops import attend
from headway.plots import lab_figures as draw

DECK_GAMMA, DECK_GUESTS = 0.9, 5  # of the slides, whose weights are known
DECK_WEIGHTS = (0.6561, 0.729, 0.81, 0.9, 1.0)
HOURS = ("10 PM", "11 PM", "11:30 PM", "12 AM", "1 AM")
WIDTH = 16  # of the guests' keys
PAIRS = (2, 4, 8, 16, 32, 64)  # stored in one sum
MEMORIES = (64, 256)  # numbers of the sum
TRIALS, QUICK_TRIALS = 200, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyParameters:
    """The party."""

    gamma: float = DECK_GAMMA  # what is left of a memory after one more guest
    guests: int = DECK_GUESTS  # who come, the first one being remarkable
    gap: float = 7.0  # by how much the first guest's score is above that of the others

    def __post_init__(self) -> None:
        if not 0 < self.gamma < 1:
            raise ConfigError(f"--gamma {self.gamma}: expected a number between 0 and 1; 1 is the sum")
        positive("--guests", self.guests)
        if not 0 <= self.gap <= 7:
            raise ConfigError(f"--gap {self.gap}: expected 0 to 7, since up to 2·e^gap guests are compared")


def forget(inputs_TD: Tensor, gamma: float) -> Tensor:
    """h_t = γ h_{t−1} + x_t from h_0 = 0, guest by guest -> h_T (D,)."""
    memory = torch.zeros_like(inputs_TD[0])
    for guest in inputs_TD:
        memory = gamma * memory + guest
    return memory


def forgetting_weights(guests: int, gamma: float) -> Tensor:
    """The weight of each guest in the memory (T,): the memory of unit vectors."""
    return forget(torch.eye(guests, dtype=torch.float64), gamma)


def attention_weights(guests: int, gap: float) -> Tensor:
    """The weight of each guest (T,) for a query whose score with the first guest is `gap` above the others' 0."""
    query = torch.zeros(WIDTH, dtype=torch.float64)
    query[0] = math.sqrt(WIDTH)  # attend divides scores by √width
    keys = torch.zeros(guests, WIDTH, dtype=torch.float64)
    keys[0, 0] = gap
    values = torch.eye(guests, dtype=torch.float64)
    found: Tensor = attend(query[None, None, None], keys[None, None], values[None, None])
    return found[0, 0, 0]


def dilution(guests: int, gap: float) -> float:
    """softmax by hand: one score of `gap` beside T − 1 scores of 0."""
    return 1 / (1 + (guests - 1) * math.exp(-gap))


def bind(keys: Tensor, values: Tensor) -> Tensor:
    """Circular convolution (…, D)."""
    bound: Tensor = torch.fft.irfft(torch.fft.rfft(keys) * torch.fft.rfft(values), n=keys.shape[-1])
    return bound


def unbind(keys: Tensor, memory: Tensor) -> Tensor:
    """Circular correlation (…, D): about what was bound to the key."""
    found: Tensor = torch.fft.irfft(torch.fft.rfft(keys).conj() * torch.fft.rfft(memory), n=keys.shape[-1])
    return found


def recall(pairs: int, width: int, trials: int, generator: torch.Generator) -> tuple[float, float]:
    """How often the value of a key is found again among T values -> by a sum of bound pairs, by attention."""
    keys, values = torch.randn(2, trials, pairs, width, generator=generator) / math.sqrt(width)
    memory = bind(keys, values).sum(1, keepdim=True)
    found = unbind(keys, memory)
    expected = torch.arange(pairs)
    by_sum = (found @ values.mT).argmax(-1) == expected
    attended = attend(keys[:, None] * width, keys[:, None], values[:, None])[:, 0]
    by_attention = (attended @ values.mT).argmax(-1) == expected
    return float(by_sum.float().mean()), float(by_attention.float().mean())


def run(parameters: PartyParameters, seed: int, quick: bool) -> LabOutcome:
    """The weights of the guests, what is left of the first one, and how much a sum can hold."""
    gamma, guests, gap = parameters.gamma, parameters.guests, parameters.gap
    generator = torch.Generator().manual_seed(seed)
    forgotten, attended = forgetting_weights(guests, gamma), attention_weights(guests, gap)
    closed = torch.tensor([gamma ** (guests - i) for i in range(1, guests + 1)], dtype=torch.float64)

    known = torch.tensor(DECK_WEIGHTS, dtype=torch.float64)
    deck = float((forgetting_weights(DECK_GUESTS, DECK_GAMMA) - known).abs().max())
    inputs = torch.randn(64, 8, generator=generator, dtype=torch.float64)
    order = torch.randperm(64, generator=generator)
    moved = {g: float((forget(inputs, g) - forget(inputs[order], g)).abs().max()) for g in (1.0, gamma)}

    lengths = sorted({2**k for k in range(12)} | {guests})
    rows = [(n, 1 / n, float(forgetting_weights(n, gamma)[0]), float(attention_weights(n, gap)[0])) for n in lengths]
    worst = max(abs(row[3] - dilution(row[0], gap)) for row in rows)
    few, many = max(1, math.floor(math.exp(gap) / 100)), round(math.exp(gap)) + 1

    trials = QUICK_TRIALS if quick else TRIALS
    held = {(d, t): recall(t, d, trials, generator) for d in MEMORIES for t in PAIRS}
    half = half_life(gamma)
    checks = [
        at_most("weights .6561 .729 .81 .9 1 of the slides (γ = 0.9, five guests), largest difference", deck, 1e-12),
        at_most("guest by guest = γ^(T−i), largest difference", float((forgotten - closed).abs().max()), 1e-9),
        equals("half-life in guests, ln 2 / −ln γ", half, math.log(2) / -math.log(gamma), -1e-6 / math.log(gamma)),
        at_most("γ = 1: change of the memory when 64 guests come in another order", moved[1.0], 1e-12),
        at_least(f"γ = {gamma:g}: change of the memory when they come in another order", moved[gamma], 1e-2),
        at_most("attention to the first guest = 1/(1+(T−1)e^−gap), largest difference", worst, 1e-6),
        at_least(f"attention to the first of e^gap/100 = {few} guests", float(attention_weights(few, gap)[0]), 0.99),
        equals(
            f"attention to the first of e^gap + 1 = {many:,} guests: half",
            float(attention_weights(many, gap)[0]), 0.5, 0.01,
        ),
        at_least("recall of 4 pairs by a sum of 64 numbers", held[64, 4][0], 0.95),
        within("recall of 16 pairs by a sum of 64 numbers", held[64, 16][0], 0.45, 0.65),
        at_most("recall of 64 pairs by a sum of 64 numbers", held[64, 64][0], 0.2),
        at_least("recall of 16 pairs by a sum of 256 numbers", held[256, 16][0], 0.93),
        at_least("recall of 64 pairs by attention over all of them", min(held[d, 64][1] for d in MEMORIES), 0.999),
    ]  # fmt: skip
    names = [*HOURS[:guests], *(f"guest {n}" for n in range(len(HOURS) + 1, guests + 1))]
    tables = [
        LabTable(
            title=f"weight of each of {guests} guests",
            header=("guest", "sum", f"forgetting, γ = {gamma:g}", f"attention, gap {gap:g}"),
            rows=[(names[i], 1.0, float(forgotten[i]), float(attended[i])) for i in range(guests)],
        ),
        LabTable(
            title="what is left of the first guest",
            header=("guests T", "sum, share", "forgetting, weight", "attention, weight"),
            rows=rows,
            note="Attention dilutes, too: its weight is 1/(1+(T−1)e^−gap), one half at T = e^gap + 1.",
        ),
        LabTable(
            title="pairs found again",
            header=("pairs T", *(f"sum of {d}" for d in MEMORIES), "attention"),
            rows=[(t, *(held[d, t][0] for d in MEMORIES), min(held[d, t][1] for d in MEMORIES)) for t in PAIRS],
            note="Attention keeps all T keys and values; a sum keeps d numbers, however many pairs there are.",
        ),
    ]
    notes = [
        "A sum weighs all guests alike; forgetting loses the first guest, however remarkable; attention keeps what the"
        " query asks for. But it is not true that attention keeps the first guest at any T: the weight falls"
        f" to one half at T = e^gap + 1 = {many:,} guests, so that the gap of the scores must grow like ln T."
    ]
    return LabOutcome(tables=tables, figures=[_figure(parameters, rows, held)], checks=checks, notes=notes)


def half_life(gamma: float) -> float:
    """After how many later guests half of a memory is left, read off the weights between two guests; NaN if never."""
    weights = forgetting_weights(4 + math.ceil(math.log(2) / -math.log(gamma)), gamma).flip(0)
    if not (weights < 0.5).any():
        return math.nan
    below = int((weights < 0.5).nonzero()[0])
    high, low = (math.log(float(weights[at])) for at in (below - 1, below))
    return below - 1 + (high - math.log(0.5)) / (high - low)


def _figure(
    parameters: PartyParameters,
    rows: list[tuple[int, float, float, float]],
    held: dict[tuple[int, int], tuple[float, float]],
) -> LabFigure:
    gamma, guests, gap = parameters.gamma, parameters.guests, parameters.gap
    figure, (left, middle, right) = draw.panels(3, height=3.3)
    at = range(1, guests + 1)
    draw.line(left, at, [1.0] * guests, "sum", 0)
    draw.line(left, at, forgetting_weights(guests, gamma), f"forgetting, γ = {gamma:g}", 1)
    draw.line(left, at, attention_weights(guests, gap), f"attention, gap {gap:g}", 2)
    draw.style(left, "Weight of each guest", "guest (the first is remarkable)", "weight", legend="center right")
    left.set_ylim(-0.04, 1.08)
    counts = [row[0] for row in rows]
    for number, column in enumerate((1, 2, 3)):
        draw.line(middle, counts, [row[column] for row in rows], "", number)
    middle.set_xscale("log", base=2)
    draw.reference(middle, math.exp(gap) + 1, vertical=True)
    middle.annotate("e^gap + 1", (0.9 * math.exp(gap), 0.14), ha="right", fontsize=8.5, color=draw.SOFT)
    draw.style(middle, "What is left of guest 1", "guests T", "weight (sum: share)")
    for number, d in enumerate(MEMORIES):
        draw.line(right, PAIRS, [held[d, t][0] for t in PAIRS], f"sum of {d}", number)
    draw.line(right, PAIRS, [held[MEMORIES[0], t][1] for t in PAIRS], "attention", 2)
    right.set_xscale("log", base=2)
    right.set_ylim(-0.04, 1.08)
    draw.style(right, "Pairs found again", "pairs T", "share of keys (recall@1)", legend="lower left")
    alt = (
        f"Three panels. Weight of each of {guests} guests: one for the sum, rising by γ = {gamma:g} to one for"
        " forgetting,"
        f" nearly all on the first for attention. What is left of the first guest by T: forgetting vanishes, attention"
        f" falls to one half at e^gap + 1. Pairs found again: a sum of 64 numbers falls from"
        f" {held[64, 2][0]:.0%} at 2 pairs to {held[64, 64][0]:.0%} at 64, one of 256 to {held[256, 64][0]:.0%},"
        f" attention stays at {held[64, 64][1]:.0%}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="party",
    chapter=1,
    title="three memories of one party",
    claim="A sum treats all guests alike and loses them as T/d grows, forgetting loses the first one by γ^(T−1), and"
    " attention keeps what the query asks for, but only while T is small beside e^gap.",
    slides=(Slide("000", "Review 2–10", 31), Slide("001", "Review 2–10", 30)),
    parameters=PartyParameters,
    run=run,
    mechanism=("forget", "attention_weights", "unbind"),
    exercise=Exercise(
        function="forget",
        task="Guests come one after another: what is remembered fades by γ before the next one is added.",
        hints=(
            "Begin with a memory of zeros, of the shape of one guest.",
            "Go through the guests in their order; each new memory is made of the one before and of the guest.",
            "In the loop: memory = gamma * memory + guest.",
        ),
        bugs=(
            PlantedBug(
                right="gamma * memory + guest",
                wrong="memory + gamma * guest",
                fails="weights .6561",
                hint="Who fades: what is remembered, or the guest who has just come?",
            ),
            PlantedBug(
                right="gamma * memory + guest",
                wrong="gamma * (memory + guest)",
                fails="weights .6561",
                hint="What is the weight of the last guest on the slide?",
            ),
        ),
    ),
)
