"""BERT's two games: guess hidden words from both sides, and tell whether a text follows another.

Of a row's words 15 % are chosen; of those 80 % are shown as a mask, 10 % as a random word and 10 % as they are (Devlin
et al. 2019, section 3.1). The text is made of documents that keep to one subject, so that the words around a hidden one
tell much, and two sentences of one document tell that they belong together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from headway.config import positive
from headway.data.tokenizers import MASK, Tokenizer
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit_model
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, equals
from headway.labs.subjects import SUBJECTS, corpus
from headway.models import BertConfig, BertPretraining, BertPretrainingConfig, build_model
from headway.plots import lab_figures as draw
from headway.tasks.masked_lm.config import Masked
from headway.tasks.masked_lm.training import MaskedTraining
from headway.tasks.training_task import IGNORED

LENGTH, RATE_LENGTH, BATCH = 24, 128, 32
QUICK_STEPS, RATE_ROWS, QUICK_RATE_ROWS = 150, 1500, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedParameters:
    """How long is trained, and what is hidden."""

    steps: int = 650  # of training, 32 pairs of sentences each
    hidden: float = 0.8  # of the chosen words: shown as a mask
    replaced: float = 0.1  # of the chosen words: shown as a random word

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        Masked(hidden=self.hidden, replaced=self.replaced)  # raises ConfigError


def shares(data: MaskedTraining, rows: int) -> dict[str, float]:
    """Of all words the share that is chosen; of those the shares shown as a mask, another, themselves."""
    places = len(data.sentences["train"].begins)
    indices = np.stack([np.arange(rows) % places, np.arange(rows)], 1)
    batch = data.batch(indices)
    shown, lengths = batch.inputs[0], batch.inputs[1]
    assert shown is not None
    assert lengths is not None
    chosen = batch.targets != IGNORED
    right, guessed = shown[chosen], batch.targets[chosen]
    hidden, same = right == data.mask, right == guessed
    return {
        "chosen": int(chosen.sum()) / int((lengths - 2).sum()),
        "mask": float(hidden.float().mean()),
        "another": float((~hidden & ~same).float().mean()),
        "itself": float(same.float().mean()),
    }


def train(model: BertPretraining, data: MaskedTraining, steps: int) -> list[float]:
    """Both games at once -> the loss by step, nats of a hidden word plus nats of a pair."""
    batches = (indices for epoch in range(steps) for indices in data.order.epoch(epoch))

    def loss(step: int) -> Tensor:
        batch = data.batch(next(batches))
        terms = data.loss(model, batch)
        return cast(Tensor, sum(term.weight * term.total for term in terms.values()) / batch.count)

    return fit_model(model, loss, steps=steps, rate=4e-3)


@torch.no_grad()
def guesses(model: BertPretraining, tokenizer: Tokenizer, line: str) -> list[tuple[str, str]]:
    """The likeliest words for each <mask> of a line, with their probabilities."""
    ids = [tokenizer.mask if word == MASK else tokenizer.id(word) for word in line.split()]
    row = torch.tensor([[tokenizer.start, *ids, tokenizer.stop]])
    probabilities = model(row, segments_BT=torch.zeros_like(row)).tokens[0].softmax(-1)
    found = []
    for place, token in enumerate(row[0].tolist()):
        if token == tokenizer.mask:
            best = probabilities[place].topk(3)
            words = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            found.append((line, ", ".join(f"{tokenizer.token(index).strip()} {p:.2f}" for p, index in words)))
    return found


def run(parameters: MaskedParameters, seed: int, quick: bool) -> LabOutcome:
    """What is hidden, then a small BERT on both games."""
    tokenizer, stores = corpus(seed)
    hiding: dict[str, Any] = {"hidden": parameters.hidden, "replaced": parameters.replaced}
    long_rows = MaskedTraining(
        Masked(length=RATE_LENGTH, rows="running", **hiding), tokenizer, stores, batch_tokens=1, seed=0
    )
    found = shares(long_rows, QUICK_RATE_ROWS if quick else RATE_ROWS)
    data = MaskedTraining(Masked(length=LENGTH, **hiding), tokenizer, stores, batch_tokens=BATCH * LENGTH, seed=seed)
    config = BertPretrainingConfig(
        bert=BertConfig(
            vocab=tokenizer.size,
            context=LENGTH,
            width=48,
            layers=2,
            heads=4,
            inner=96,
            dropout=0.0,
            place="pre",
            init_std=0.1,
        )
    )
    model = cast(BertPretraining, build_model(config, seed=seed))
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    losses = train(model, data, steps)
    report = data.evaluate(model, torch.device("cpu"), "test")
    floor, loss, follows = report["unigram_entropy"], report["loss"], report["next_sentence_accuracy"]
    words = len(data.ordinary)
    other = parameters.replaced * (1 - 1 / words)  # a random word may be the right one
    chance = 1 / len(SUBJECTS)  # of another document to have the same subject
    wide = 0.01 if quick else 0.005
    checks = [
        equals("share of words that are chosen", found["chosen"], 0.15, 0.005),
        equals("of the chosen: shown as a mask", found["mask"], parameters.hidden, wide),
        equals("of the chosen: shown as another word", found["another"], other, wide),
        equals("of the chosen: shown as themselves", found["itself"], 1 - parameters.hidden - other, wide),
        at_least("nats of a hidden word below the words' frequencies alone", floor - loss, 0.5 if quick else 1.7),
        *([] if quick else [at_least("next sentence: share right", follows, 0.8)]),
    ]
    lines = (f"the {MASK} drinks the milk .", f"the pilot {MASK} the plane .", f"the judge reads the {MASK} .")
    tables = [
        LabTable(
            title="hidden words and what the model takes them for",
            header=("line", "guesses with probabilities"),
            rows=[pair for line in lines for pair in guesses(model, tokenizer, line)],
        ),
        LabTable(
            title="what is shown of 100 chosen words",
            header=("as", "measured", "asked for"),
            rows=[
                ("a mask", 100 * found["mask"], 100 * parameters.hidden),
                ("another word", 100 * found["another"], 100 * other),
                ("itself", 100 * found["itself"], 100 * (1 - parameters.hidden - other)),
            ],
            note=f"{found['chosen']:.1%} of the words are chosen. A random word is the right one once in {words}.",
        ),
        LabTable(
            title=f"new documents, after {steps} steps",
            header=("what", "value"),
            rows=[
                ("nats a word, frequencies alone", floor),
                ("nats a hidden word, BERT", loss),
                ("next sentence: share right", follows),
                ("the best that subjects can tell", 1 - chance / 2),
            ],
        ),
    ]
    notes = [
        "A hidden word is guessed from both sides: “drinks … milk” leaves two words. What remains cannot be known. Of"
        f" pairs whose second text comes from another document, {chance:.0%} have the same subject by chance."
    ]
    return LabOutcome(tables=tables, figures=[_figure(losses, floor, loss, found)], checks=checks, notes=notes)


def _figure(losses: list[float], floor: float, loss: float, found: dict[str, float]) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.3, widths=(1.4, 1))
    draw.line(left, range(1, len(losses) + 1), losses, "hidden words + next sentence", 0, markers=False)
    draw.reference(left, floor + math.log(2), "frequencies alone, coin for the pair")
    left.set_ylim(bottom=0)
    draw.style(left, "Loss while training", "step", "loss (nats)", legend="upper right")
    shown = {"a mask": "mask", "another word": "another", "itself": "itself"}
    right.bar(range(3), [100 * found[name] for name in shown.values()], color=draw.BLUE, width=0.6)
    for place, name in enumerate(shown.values()):
        right.text(place, 100 * found[name] + 1.5, f"{100 * found[name]:.1f}", ha="center", fontsize=9, color=draw.INK)
    right.set_xticks(range(3), [*shown])
    right.set_ylim(0, 92)
    draw.style(right, "A chosen word is shown as", "", "share of the chosen words (%)")
    mask, another, itself = (f"{found[name]:.1%}" for name in shown.values())
    alt = (
        f"Left: the loss of both games falls from {losses[0]:.2f} to {losses[-1]:.2f} nats over {len(losses)} steps; on"
        f" new documents a hidden word costs {loss:.2f} nats, {floor:.2f} by frequencies alone. Right: chosen words are"
        f" shown as a mask in {mask}, as another word in {another}, as themselves in {itself}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="masked",
    chapter=8,
    title="BERT's hidden words and next sentence",
    claim="Of the words 15 % are chosen and shown as a mask, another word or themselves by 80/10/10; from both sides a"
    " small BERT guesses them nearly two nats better than by frequency, and tells whether a text follows another.",
    slides=(Slide("004", "p. 57", 667), Slide("000", "Unsupervised 62"), Slide("001", "Unsupervised 62")),
    parameters=MaskedParameters,
    run=run,
    mechanism=("shares", "train"),
    exercise=Exercise(
        function="headway.tasks.masked_lm.training:MaskedTraining._corrupt",
        task="Choose a share config.mask of the places `may`, at least one. Of the chosen tokens a share"
        " config.hidden is shown as self.mask, config.replaced as a random one of self.ordinary, the rest as"
        " themselves; the targets are the chosen tokens, IGNORED elsewhere.",
        hints=(
            "random.permutation(may)[:count] chooses; random.random(len(chosen)) decides what becomes of each.",
            "A number below hidden: the mask; below hidden + replaced: a random token; else unchanged.",
            "Copy the tokens first: the targets need them as they were.",
        ),
        bugs=(
            PlantedBug(
                right="kind < config.hidden + config.replaced",
                wrong="kind < config.replaced",
                fails="of the chosen: shown as another",
                hint="Between which two numbers is a token replaced?",
            ),
            PlantedBug(
                right="targets[chosen] = tokens[chosen]",
                wrong="targets[may] = tokens[may]",
                fails="share of words",
                hint="Which words are to be guessed?",
            ),
        ),
    ),
)
