"""Adaptive computation time in a Universal Transformer (Dehghani et al. 2019) on additions, column by column.

Each column of a sum is one token, and the encoder attends to one column on each side, so that a carry travels one
column per step. A column's digit mostly depends on its right neighbour only; but if that neighbour adds up to nine, it
depends on the next one, and so on. Tokens should take more steps there, and do. With attention to all columns two steps
are enough for every sum, so that there is nothing to observe.

Halting begins at a low probability, so that every column takes the most steps at first, and steps cost nothing until
the sums are right; then their cost rises. A network that begins with few steps, or pays for them from the start, can
settle where it reads one neighbour in two steps everywhere, and what is never taken is never learnt.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.data.datasets import load_parallel
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, progress
from headway.nn.adaptive_computation import Adaptive
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.universal_stack import LoopConfig, record_steps
from headway.ops import Window
from headway.plots import lab_figures as draw

COLUMNS = 6  # sums of five digits
WIDTH, HEADS, INNER, CAP = 32, 4, 64, 8
PONDER, FREE, FULL = 0.05, 0.3, 0.7  # weight of the cost of steps: 0 in this share of training, whole after that one
BIAS = -2.0  # of the halting probability at the start: σ(−2) = 0.12, the cap is reached
NINES = 0.4  # share of columns of random sums that add up to nine: otherwise carries rarely travel
SHOWN = ("12345+54321", "1+9", "12399+1", "19999+1", "99999+1", "45454+54546")  # of the ponder map
QUICK_STEPS = 600
RANDOM = 2000  # random sums that are tested
FEW = 20  # columns with a chain of some length, below which their mean is not compared
ROWS = 96  # of a batch, half of them from the set `addition`


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums (N, C), the most significant column first."""

    pairs: Tensor  # 10·a + b, the tokens
    digits: Tensor  # of the sum
    carries: Tensor  # 1 where the column receives one
    chains: Tensor  # how many columns to the right the carry depends on; 0 at the right end

    def rows(self, index: Tensor) -> Sums:
        """The sums at these indices."""
        return Sums(self.pairs[index], self.digits[index], self.carries[index], self.chains[index])

    def beside(self, other: Sums) -> Sums:
        """Both concatenated."""
        mine, theirs = ((s.pairs, s.digits, s.carries, s.chains) for s in (self, other))
        return Sums(*(torch.cat(both) for both in zip(mine, theirs, strict=True)))


def sums(a_NC: Tensor, b_NC: Tensor) -> Sums:
    """The sums of numbers given by their digits (N, C)."""
    both = a_NC + b_NC
    carries, chains = torch.zeros_like(both), torch.zeros_like(both)
    for column in range(both.shape[1] - 2, -1, -1):
        right = both[:, column + 1]
        carries[:, column] = (right + carries[:, column + 1] >= 10).long()
        chains[:, column] = torch.where(right == 9, chains[:, column + 1] + 1, 1)
    return Sums(10 * a_NC + b_NC, (both + carries) % 10, carries, chains)


def load_sums(split: str) -> Sums:
    """The sums of a split of the data set `addition`."""
    pairs = [source.replace(" ", "").split("+") for source, _ in load_parallel("addition", "", "").pairs(split)]
    numbers = torch.tensor([[[int(digit) for digit in part.zfill(COLUMNS)] for part in pair] for pair in pairs])
    return sums(numbers[:, 0], numbers[:, 1])


def random_sums(count: int, generator: torch.Generator) -> Sums:
    """Random sums in which carries travel: many columns add up to nine."""
    a, b = torch.randint(10, (2, count, COLUMNS), generator=generator)
    b = torch.where(torch.rand(b.shape, generator=generator) < NINES, 9 - a, b)
    a[:, 0] = b[:, 0] = 0
    return sums(a, b)


class Adder(nn.Module):
    """Columns (N, C) -> logits of the sum's digits (N, C, 10)."""

    def __init__(self) -> None:
        super().__init__()
        attention = AttentionConfig(width=WIDTH, heads=HEADS)
        block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(inner=INNER))
        halting = Adaptive(steps=CAP, ponder=PONDER, bias=BIAS, mixture="accumulated")
        self.embedding = nn.Embedding(100, WIDTH)
        self.loop = LoopConfig(block=block, halting=halting).build()
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, pairs_NC: Tensor) -> Tensor:
        """(N, C) -> (N, C, 10)."""
        logits: Tensor = self.head(self.loop(self.embedding(pairs_NC), mask=Window(1)))
        return logits


def ponder_weight(share: float) -> float:
    """The weight of the cost of steps after this share of training."""
    return PONDER * min(1.0, max(0.0, (share - FREE) / (FULL - FREE)))


def train(*, steps: int = 1300, seed: int = 0) -> Adder:
    """Train on `addition` and on random sums, with cross-entropy and ponder cost."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = Adder()
    generator, seen = torch.Generator().manual_seed(seed + 1), load_sums("train")
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: min(1.0, (k + 1) / 100) * (1 - k / steps))
    for step in range(steps):
        index = torch.randint(len(seen.pairs), (ROWS // 2,), generator=generator)
        batch = random_sums(ROWS // 2, generator).beside(seen.rows(index))
        with record_steps(model) as heard:
            logits = model(batch.pairs)
        nats = F.cross_entropy(logits.flatten(0, 1), batch.digits.flatten())
        optimiser.zero_grad()
        (nats + ponder_weight(step / steps) * heard[0].cost.mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        progress("training", step + 1, steps)
    return model.eval()


@torch.no_grad()
def predict(model: Adder, data: Sums) -> tuple[Tensor, Tensor]:
    """Which digits are predicted correctly, and the ACT steps of each column, both (N, C)."""
    with record_steps(model) as heard:
        right = model(data.pairs).argmax(-1) == data.digits
    return right, heard[0][1]


def steps_by_chain(steps_NC: Tensor, data: Sums) -> dict[int, tuple[float, int]]:
    """Mean steps and number of columns for each chain length."""
    return {
        int(length): (float(steps_NC[data.chains == length].float().mean()), int((data.chains == length).sum()))
        for length in data.chains.unique()
    }


def correlation(steps_NC: Tensor, what_NC: Tensor) -> float:
    """Pearson's correlation over all columns."""
    return float(torch.corrcoef(torch.stack([steps_NC.flatten().float(), what_NC.flatten().float()]))[0, 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class PonderingParameters:
    """How long is trained."""

    steps: int = 1300  # of training

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def run(parameters: PonderingParameters, seed: int, quick: bool) -> LabOutcome:
    """Train the adder, count the steps that its columns take, draw a few sums."""
    model = train(steps=min(QUICK_STEPS, parameters.steps) if quick else parameters.steps, seed=seed)
    tables, checks = [], []
    chains: dict[str, dict[int, tuple[float, int]]] = {}
    random = random_sums(RANDOM, torch.Generator().manual_seed(seed + 2))
    for title, data in (("held-out sums of the set addition", load_sums("test")), ("carries that travel", random)):
        right, taken = predict(model, data)
        share = float(right.float().mean())
        chains[title] = steps_by_chain(taken, data)
        with_carry, without = (float(taken[data.carries == given].float().mean()) for given in (1, 0))
        related = correlation(taken, data.chains)
        rows = [(chain, mean, count) for chain, (mean, count) in chains[title].items()]
        tables.append(
            LabTable(
                title=f"{title}: {share:.2%} of the digits are right",
                header=("columns to ask", "steps (mean)", "columns"),
                rows=rows,
                note=f"Columns with a carry take {with_carry:.2f} steps, those without {without:.2f};"
                f" correlation of steps and columns to ask {related:.2f}.",
            )
        )
        checks.append(at_least(f"{title}: share of right digits", share, 0.95 if quick else 0.99))
        if title == "carries that travel":
            means = [mean for mean, count in chains[title].values() if count >= FEW]
            checks += [
                at_least("steps that one more column to ask takes, mean", (means[-1] - means[0]) / (len(means) - 1),
                         0.1 if quick else 0.4),
                at_least("correlation of steps and columns to ask, where carries travel", related,
                         0.1 if quick else 0.5),
                at_least("steps with a carry less steps without", with_carry - without, 0.05 if quick else 0.1),
            ]  # fmt: skip
    weights = sum(parameter.numel() for parameter in model.loop.blocks.parameters())
    notes = [
        f"One block of {weights:,} weights takes every step: the Universal Transformer also shares its weights, which a"
        f" stack of {CAP} layers, {CAP * weights:,} weights, does not."
    ]
    return LabOutcome(tables=tables, figures=[_map(model, chains["carries that travel"])], checks=checks, notes=notes)


def _map(model: Adder, chains: dict[int, tuple[float, int]]) -> LabFigure:
    """The steps of each column of a few sums, and the mean by the columns that a digit depends on."""
    numbers = [[part.zfill(COLUMNS) for part in line.split("+")] for line in SHOWN]
    a, b = (torch.tensor([[int(digit) for digit in pair[side]] for pair in numbers]) for side in (0, 1))
    taken = predict(model, sums(a, b))[1]
    figure, (left, right) = draw.panels(2, height=3.4, widths=(3, 2))
    draw.heatmap(
        figure, left, taken, title="Steps of each column", xlabel="column (the last one has the units)",
        rows=[line.replace("+", " + ") for line in SHOWN], columns=[str(n + 1) for n in range(COLUMNS)],
        label="steps", write=".0f",
    )  # fmt: skip
    draw.line(right, list(chains), [mean for mean, _ in chains.values()], "", 0)
    draw.style(right, "Steps by chain", "columns that a digit depends on", "steps (mean)")
    means = ", ".join(f"{mean:.1f}" for mean, _ in chains.values())
    alt = (
        "Left: steps that each column of six sums takes; most where a carry comes from far away, as in 99999 + 1."
        f" Right: mean steps by the number of columns that a digit depends on, 0 to {max(chains)}: {means}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="pondering",
    chapter=10,
    title="a Universal Transformer that adds",
    claim="A Universal Transformer with adaptive computation time takes more steps at columns whose carry comes from"
    " further away.",
    slides=(Slide("004", "p. 61"),),
    parameters=PonderingParameters,
    run=run,
    mechanism=("predict", "sums"),
    exercise=Exercise(
        function="headway.nn.adaptive_computation:Pondering.spend",
        task="A running token halts at the step that brings its spent probability above the threshold, and at the"
        " last step in any case. A step's weight u is p while the token goes on, and what is left of 1 at"
        " the step at which it halts; 0 after.",
        hints=(
            "over is where spent + p exceeds the threshold; only running tokens halt or go on.",
            "At the halting step u = 1 − spent, the remainder, so that all weights sum to 1.",
            "After it: running are those that go on, spent grows by p of those, steps by 1 for all that were"
            " running, remainder by what was left.",
        ),
        bugs=(
            PlantedBug(
                right="self.spent + p_BT > threshold",
                wrong="p_BT > threshold",
                fails="correlation of steps",
                hint="When does a token halt: what is compared with the threshold?",
            ),
        ),
    ),
)
