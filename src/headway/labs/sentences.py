"""A recurrent language model (Mikolov et al. 2010) of three sentences, sampled with and without feeding its words back.

The lowest possible loss is 3·ln 3 / 19 nats per token: after "I" three continuations are possible, the rest is certain.
Without feeding tokens back, the model learns the distribution of each position, but its samples are nonsense.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import sample
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
    progress,
    within,
)
from headway.models import RnnLm, RnnLmConfig, build_model
from headway.nn.recurrent import RecurrentConfig
from headway.plots import lab_figures as draw

SENTENCES = ("I think therefore I am", "I like machine learning", "I am not just a neural network")
PAD, START, EOS = "<pad>", "<start>", "<eos>"
WORDS = (PAD, START, EOS, *sorted({word for sentence in SENTENCES for word in sentence.split()}))
IDS = {word: index for index, word in enumerate(WORDS)}
MAX_TOKENS = 12  # of a sample
QUICK_STEPS, QUICK_SAMPLES = 200, 300
FLOOR = 3 * math.log(3) / sum(len(sentence.split()) + 1 for sentence in SENTENCES)


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    """Inputs START, w_1 … w_n and targets w_1 … w_n, EOS, padded (B, T)."""

    inputs: Tensor
    targets: Tensor


def batch(*, feed_back: bool = True) -> SentenceBatch:
    """The three sentences; without feedback the input is START at every step."""
    rows = [[IDS[word] for word in sentence.split()] for sentence in SENTENCES]
    length = max(map(len, rows)) + 1
    inputs = torch.full((len(rows), length), IDS[PAD])
    targets = inputs.clone()
    for b, row in enumerate(rows):
        inputs[b, : len(row) + 1] = torch.tensor([IDS[START], *row])
        targets[b, : len(row) + 1] = torch.tensor([*row, IDS[EOS]])
    if not feed_back:
        inputs[:] = IDS[START]
    return SentenceBatch(inputs, targets)


def loss(model: RnnLm, data: SentenceBatch) -> Tensor:
    """Mean nats per target token, without padding."""
    logits = model(data.inputs)
    return F.cross_entropy(logits.flatten(0, 1), data.targets.flatten(), ignore_index=IDS[PAD])


def train(
    *,
    steps: int = 400,
    seed: int = 0,
    feed_back: bool = True,
) -> tuple[RnnLm, list[float]]:
    """Train a GRU of 32 units on the three sentences -> the model and its loss in nats per token, by step.

    The last loss is that of the trained model.
    """
    config = RnnLmConfig(vocab=len(WORDS), recurrent=RecurrentConfig(hidden=32, cell="gru"), input="one-hot")
    model = cast(RnnLm, build_model(config, seed=seed))
    data = batch(feed_back=feed_back)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, steps)
    losses = []
    for step in range(steps):
        nats = loss(model, data)
        optimiser.zero_grad()
        nats.backward()
        optimiser.step()
        schedule.step()
        losses.append(nats.item())
        progress("training, fed back" if feed_back else "training, not fed back", step + 1, steps)
    model.eval()
    with torch.no_grad():
        return model, [*losses, loss(model, data).item()]


def samples(model: RnnLm, count: int, *, seed: int = 0, feed_back: bool = True) -> list[str]:
    """`count` sentences sampled from the model."""
    limits = SequenceLimits(start=torch.full((count, 1), IDS[START]), stop=IDS[EOS], max_tokens=MAX_TOKENS)
    lines = sample(model, limits, seed=seed, feed_back=feed_back)
    return [" ".join(WORDS[token] for token in line) for line in lines]


def share_of_sentences(lines: list[str]) -> float:
    """The fraction of lines that are one of the three sentences."""
    return sum(line in SENTENCES for line in lines) / len(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencesParameters:
    """How long is trained, how much is sampled."""

    steps: int = 400  # of training
    samples: int = 4000  # drawn from each model

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        positive("--samples", self.samples)


@torch.no_grad()
def next_words(model: RnnLm, words: str) -> dict[str, float]:
    """The probability of each word after these."""
    ids = torch.tensor([[IDS[START], *(IDS[word] for word in words.split())]])
    probabilities = model(ids)[0, -1].softmax(-1)
    return {word: float(probabilities[index]) for word, index in IDS.items()}


def run(parameters: SentencesParameters, seed: int, quick: bool) -> LabOutcome:
    """Train with and without feeding back, sample from both."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    count = min(QUICK_SAMPLES, parameters.samples) if quick else parameters.samples
    trained = {fed: train(steps=steps, seed=seed, feed_back=fed) for fed in (True, False)}
    lines = {fed: samples(model, count, seed=seed, feed_back=fed) for fed, (model, _) in trained.items()}
    share = {fed: share_of_sentences(found) for fed, found in lines.items()}
    counts = Counter(lines[True])
    endless = sum(len(line.split()) >= MAX_TOKENS for line in lines[True]) / count
    model, nats = trained[True][0], trained[True][1][-1]
    tree = {words: next_words(model, words) for words in ("", "I", "I am", "I think therefore I", SENTENCES[1])}
    checks = [
        within("loss in nats per word; no model can go below the first number", nats, FLOOR, 0.18),
        at_least("share of samples that are one of the three sentences", share[True], 0.99),
        *(equals(f"share of “{sentence}”", counts[sentence] / count, 1 / 3, 0.05 if count >= 1000 else 0.1)
          for sentence in SENTENCES),
        at_most("share that are a sentence where the words are not fed back", share[False], 0.1),
        at_most("samples that do not come to an end (EOS)", endless, 0.01),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"the most frequent of {count:,} samples, {'fed its own words' if fed else 'not fed its own words'}",
            header=("sample", "times", "one of the three"),
            rows=[
                (line or "(nothing)", times, "yes" if line in SENTENCES else "no")
                for line, times in Counter(lines[fed]).most_common(5)
            ],
            note=f"{trained[fed][1][-1]:.4f} nats per word; {share[fed]:.1%} of the samples are a sentence.",
        )
        for fed in (True, False)
    ]
    tables.append(
        LabTable(
            title="the next word",
            header=("after", "probabilities"),
            rows=[
                (f"START {words}".strip(), ", ".join(f"{word} {p:.2f}" for word, p in _likely(found)))
                for words, found in tree.items()
            ],
        )
    )
    notes = [
        "Both models know which words stand at each position. Only the one that reads its own last word back can make"
        " them fit together: past outputs must influence future outputs. So there is an output for each place, and it"
        " goes back in as the next input.",
        "EOS (end of sequence) is one more token: it stands behind every sentence in training, and writing stops when"
        " it is sampled.",
    ]
    figure = _figure({fed: losses for fed, (_, losses) in trained.items()}, tree, share)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _likely(found: dict[str, float]) -> list[tuple[str, float]]:
    return [(word, p) for word, p in sorted(found.items(), key=lambda pair: -pair[1]) if p >= 0.05]


def _figure(losses: dict[bool, list[float]], tree: dict[str, dict[str, float]], share: dict[bool, float]) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.4)
    for number, fed in enumerate((True, False)):
        name = f"{'fed back' if fed else 'not fed back'}: {share[fed]:.0%} sentences"
        draw.line(left, range(len(losses[fed])), losses[fed], name, number, markers=False)
    draw.reference(left, FLOOR, f"lowest possible, {FLOOR:.4f}")
    left.set_ylim(bottom=0)
    draw.style(left, "Loss while training", "step", "loss (nats per word)", legend="upper right")
    bars = [(f"{words or 'START'} → {word}", p) for words, found in tree.items() for word, p in _likely(found)]
    right.barh(range(len(bars)), [p for _, p in bars], color=draw.BLUE, height=0.65)
    right.set_yticks(range(len(bars)), [name for name, _ in bars])
    right.invert_yaxis()
    right.set_xlim(0, 1.05)
    draw.style(right, "What it says next, fed back", "probability", "")
    alt = (
        f"Left: loss by step, which comes down to {losses[True][-1]:.4f} nats per word with the words fed back and to"
        f" {losses[False][-1]:.3f} without. Right: the next word after START is I; after I it is am, like or think"
        " with a third each; then it is certain, and behind a whole sentence it is EOS."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="sentences",
    chapter=3,
    title="a language model of three sentences",
    claim="A model that reads its own words back says the three sentences it was trained on, each a third of the time;"
    " one that knows the words of each position but does not read them back talks nonsense.",
    slides=(Slide("002", "p. 3–8"), Slide("001", "Text 58", 1807)),
    parameters=SentencesParameters,
    run=run,
    mechanism=("batch", "samples"),
    exercise=Exercise(
        function="batch",
        task="The target of a step is the word that is fed in at the next one. Rows are padded with PAD to the"
        " longest.",
        hints=(
            "Each row is the numbers of a sentence's words, IDS[word]; both tensors are full of IDS[PAD] at first.",
            "Inputs begin with START and end with the last word; targets begin with the first word and end with EOS.",
            "inputs[b, : n + 1] = [START, *row] and targets[b, : n + 1] = [*row, EOS]; without feedback all"
            " inputs are START.",
        ),
        bugs=(
            PlantedBug(
                right="[IDS[START], *row]",
                wrong="[*row, IDS[EOS]]",
                fails="loss in nats",
                hint="A loss below what any model can reach: what does the model see that it has to say?",
            ),
            PlantedBug(
                right="[*row, IDS[EOS]]",
                wrong="[*row, IDS[PAD]]",
                fails="samples that do not come to an end",
                hint="How does a sentence end?",
            ),
        ),
    ),
)
