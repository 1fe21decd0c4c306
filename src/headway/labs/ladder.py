"""One text, one ladder of models: no context, one letter, two, a recurrent network, a transformer; bits a letter.

The models predict the next letter of English sentences that they have not seen. Count tables know 0, 1 and 2 letters
(Shannon 1951, section 2); a GRU and a GPT read from the sentence's start. All are scored on the same letters.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.data.synthetic.phrases import phrases
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit_model
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most
from headway.models import GptConfig, Model, RnnLmConfig, build_model
from headway.nn.recurrent import RecurrentConfig
from headway.plots import lab_figures as draw

LENGTH = 48  # letters of a sentence that are read; longer ones are cut
TESTED, BATCH, QUICK_STEPS = 300, 32, 250
ADDED = 0.1  # count of every letter that a table has not met
ORDERS = (0, 1, 2)
NAMES = {0: "unigram (no letter)", 1: "bigram (1 letter)", 2: "trigram (2 letters)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderParameters:
    """How long the two networks are trained."""

    steps: int = 700  # of training, 32 sentences each

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def letters() -> tuple[dict[str, int], dict[str, list[str]]]:
    """Numbers of the letters (0: start and padding, 1: end), and the English sentences by split, each once."""
    lines = {split: sorted({english for english, _ in pairs}) for split, pairs in phrases().items()}
    found = sorted({letter for split in lines.values() for line in split for letter in line})
    return {letter: number for number, letter in enumerate(found, 2)}, lines


def encode(lines: list[str], ids: dict[str, int]) -> Tensor:
    """Sentences as rows (N, LENGTH + 1): start, letters, end; padded with -100."""
    table = torch.full((len(lines), LENGTH + 1), -100)
    for row, line in zip(table, lines, strict=True):
        tokens = [0, *(ids[letter] for letter in line), 1][: LENGTH + 1]
        row[: len(tokens)] = torch.tensor(tokens)
    return table


def counts_table(rows: Tensor, order: int, vocab: int) -> Tensor:
    """Probabilities of the next letter (vocab, …, vocab) given the `order` letters before, from counts."""
    table = torch.full((vocab,) * (order + 1), ADDED, dtype=torch.float64)
    for at in range(max(order, 1), LENGTH + 1):
        columns = [rows[:, at - back] for back in range(order, -1, -1)]
        real = columns[-1] >= 0
        table.index_put_(
            tuple(c[real] for c in columns), torch.ones(int(real.sum()), dtype=torch.float64), accumulate=True
        )
    return table / table.sum(-1, keepdim=True)


def bits_of_table(table: Tensor, rows: Tensor) -> float:
    """Bits a letter, of the letters that have two before them (the first by the shorter context is left out)."""
    order = table.ndim - 1
    nats, count = 0.0, 0
    for at in range(2, LENGTH + 1):
        columns = [rows[:, at - back] for back in range(order, -1, -1)]
        real = columns[-1] >= 0
        nats -= float(table[tuple(c[real] for c in columns)].log().sum())
        count += int(real.sum())
    return nats / count / math.log(2)


@torch.no_grad()
def bits_of_model(model: Model, rows: Tensor) -> float:
    """Bits a letter of the same letters."""
    nats, count = 0.0, 0
    for some in rows.split(100):
        logits = model(some[:, :-1].clamp(min=0))[:, 1:]
        nats += float(F.cross_entropy(logits.flatten(0, 1), some[:, 2:].flatten(), ignore_index=-100, reduction="sum"))
        count += int((some[:, 2:] >= 0).sum())
    return nats / count / math.log(2)


def networks(vocab: int, seed: int) -> dict[str, Model]:
    """A GRU and a GPT of about as many weights."""
    gru = RnnLmConfig(vocab=vocab, recurrent=RecurrentConfig(hidden=96, cell="gru"), width=48)
    gpt = GptConfig(vocab=vocab, context=LENGTH, width=64, layers=2, heads=4, inner=64)
    return {"GRU (all letters)": build_model(gru, seed=seed), "GPT (all letters)": build_model(gpt, seed=seed)}


def train(model: Model, rows: Tensor, steps: int, seed: int, what: str) -> None:
    """Next-letter prediction on random sentences."""
    generator = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        some = rows[torch.randint(len(rows), (BATCH,), generator=generator)]
        return F.cross_entropy(model(some[:, :-1].clamp(min=0)).flatten(0, 1), some[:, 1:].flatten(), ignore_index=-100)

    fit_model(model, loss, steps=steps, rate=4e-3, what=f"training, {what}")


def run(parameters: LadderParameters, seed: int, quick: bool) -> LabOutcome:
    """Every rung on the same letters."""
    ids, lines = letters()
    vocab = len(ids) + 2
    held_out = random.Random(seed).sample(lines["test"], min(TESTED, len(lines["test"])))
    rows, test = encode(lines["train"], ids), encode(held_out, ids)
    bits = {NAMES[order]: bits_of_table(counts_table(rows, order, vocab), test) for order in ORDERS}
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    found = networks(vocab, seed)
    for name, model in found.items():
        train(model, rows, steps, seed, name[:3])
        bits[name] = bits_of_model(model, test)
    first, second, third, gru, gpt = bits.values()
    sums = [float((counts_table(rows[:50], order, vocab).sum(-1) - 1).abs().max()) for order in ORDERS]
    table, than = ("one letter", second) if quick else ("two letters", third)  # seconds of training are not enough
    sizes = {NAMES[order]: vocab**order * (vocab - 1) for order in ORDERS}
    sizes |= {name: sum(p.numel() for p in model.parameters()) for name, model in found.items()}
    checks = [
        at_most("probabilities of a table, distance of their sum from 1", max(sums), 1e-9),
        at_most("unigram: bits a letter; all letters alike would have the bound", first, math.log2(vocab)),
        at_least("bits that one letter of context saves", first - second, 0.5),
        at_least("bits that a second letter saves", second - third, 0.3),
        at_least(f"bits that a GRU saves over {table}", than - gru, 0.1),
        at_least(f"bits that a GPT saves over {table}", than - gpt, 0.1),
    ]
    tables = [
        LabTable(
            title=f"{len(held_out)} sentences that no model has seen, {vocab} letters and marks",
            header=("model", "weights", "bits a letter", "as likely as one of"),
            rows=[
                (name, sizes[name], value, 2**value) for name, value in bits.items()
            ],
            note="The last column is 2 to the bits: between how many letters the model has to guess.",
        )
    ]  # fmt: skip
    better = "the GPT" if gpt < gru else "the GRU"
    notes = [
        "Every letter of context saves bits, but a table of n letters has V^n rows and most of them stay empty. A"
        f" network shares what it learned between contexts; of the two, {better} is ahead after {steps} steps."
    ]
    return LabOutcome(tables=tables, figures=[_figure(bits)], checks=checks, notes=notes)


def _figure(bits: dict[str, float]) -> LabFigure:
    figure, (axes,) = draw.panels(1, height=3.0)
    colours = [draw.SOFT] * 3 + [draw.BLUE, draw.ORANGE]
    axes.barh(range(len(bits)), [*bits.values()], color=colours, height=0.62)
    for place, value in enumerate(bits.values()):
        axes.text(value + 0.04, place, f"{value:.2f}", va="center", fontsize=10, color=draw.INK)
    axes.set_yticks(range(len(bits)), [*bits])
    axes.invert_yaxis()
    axes.set_xlim(0, max(bits.values()) + 0.4)
    draw.style(axes, "A ladder of models on one text", "bits a letter (lower is better)", "")
    alt = "Bars, bits a letter: " + "; ".join(f"{name} {value:.2f}" for name, value in bits.items()) + "."
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="ladder",
    chapter=8,
    title="one text, one ladder of models",
    claim="Each letter of context saves bits (unigram, bigram, trigram), and a network that reads the whole beginning"
    " of a sentence, recurrent or with attention, saves more than any of the tables.",
    slides=(Slide("004", "p. 57", 667), Slide("002", "p. 3"), Slide("001", "Unsupervised 62")),
    parameters=LadderParameters,
    run=run,
    mechanism=("counts_table", "networks", "train"),
    exercise=Exercise(
        function="counts_table",
        task="Count how often each letter follows the `order` letters before it, begin every count with ADDED,"
        " and divide by the sum of each context. rows (N, LENGTH + 1) are numbers of letters, below 0 where"
        " a row is padded; the letters to count are those at places 1 to LENGTH with `order` letters before them.",
        hints=(
            "The table has order + 1 axes of size vocab; the last one is the letter that follows.",
            "For each column `at` of rows: its letters and those of the `order` columns before it are"
            " indices into the table.",
            "index_put_(indices, ones, accumulate=True) counts; leave out rows that are padded at this column.",
        ),
        bugs=(
            PlantedBug(
                right="table.sum(-1, keepdim=True)",
                wrong="table.sum(0, keepdim=True)",
                fails="probabilities of a table",
                hint="Over which axis do probabilities sum to 1?",
            ),
            PlantedBug(
                right="table.sum(-1, keepdim=True)",
                wrong="table.sum()",
                fails="probabilities of a table",
                hint="What does a row of the table sum to?",
            ),
        ),
    ),
)
