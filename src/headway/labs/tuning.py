"""Few labels, with and without pretraining: a classifier that begins with a BERT's weights, and one from scratch.

A BERT reads documents without labels (lab `masked`). Then a classifier learns the subject of sentences of which one
word is shown, from one to three words a subject, and is asked about all other words. From scratch it cannot know words
that no label has shown; the pretrained one has met them all in company (Devlin et al. 2019, section 3.2).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.data.config import DataConfig
from headway.data.tokenizers import Tokenizer
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit_model, share_right
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most
from headway.labs.subjects import SUBJECTS, corpus
from headway.models import BertConfig, BertPretrainingConfig, TextClassifierConfig, build_model
from headway.models.backbone import begin_with
from headway.plots import lab_figures as draw
from headway.tasks.initial_weights import FinetuneSource, initial_weights
from headway.tasks.masked_lm.config import Masked
from headway.tasks.masked_lm.training import MaskedTraining

LENGTH, BATCH = 24, 32
WORDS_LABELLED = (1, 2, 3)  # of the six of each subject
TUNING_STEPS, REPEATS, QUICK_STEPS, QUICK_REPEATS = 40, 4, 250, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningParameters:
    """How long is pretrained."""

    steps: int = 500  # of pretraining, 32 rows each

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def encoder(vocab: int) -> BertConfig:
    """The encoder of both."""
    return BertConfig(
        vocab=vocab, context=LENGTH, width=48, layers=2, heads=4, inner=96, dropout=0.0, place="pre", init_std=0.1
    )


def pretrained(seed: int, steps: int) -> tuple[Tokenizer, FinetuneSource]:
    """A BERT that has guessed hidden words of documents without labels, as what another model begins with."""
    tokenizer, stores = corpus(seed)
    task = Masked(length=LENGTH, rows="running")
    data = MaskedTraining(task, tokenizer, stores, batch_tokens=BATCH * LENGTH, seed=seed)
    config = BertPretrainingConfig(bert=encoder(tokenizer.size), follows=False)
    model = build_model(config, seed=seed)
    batches = (indices for epoch in range(steps) for indices in data.order.epoch(epoch))

    def loss(step: int) -> Tensor:
        batch = data.batch(next(batches))
        return cast(Tensor, sum(term.total for term in data.loss(model, batch).values()) / batch.count)

    fit_model(model, loss, steps=steps, rate=4e-3, what="pretraining")
    source = FinetuneSource(
        folder=Path("pretrained"), task=task, model=config, data=DataConfig(), weights=model.state_dict()
    )
    return tokenizer, source


def examples(tokenizer: Tokenizer, labelled: int, chosen: random.Random) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences with one word shown (36, 8), their subjects (36,), and which have a label: so many of each subject."""
    rows, subjects, known = [], [], []
    for subject, kinds in enumerate(SUBJECTS):
        words = [(slot, word) for slot, kind in enumerate(kinds) for word in kind]
        shown = chosen.sample(words, labelled)
        for slot, word in words:
            line = ["the", None, None, "the", None, "."]
            line[(1, 2, 4)[slot]] = word
            ids = [tokenizer.mask if each is None else tokenizer.id(each) for each in line]
            rows.append([tokenizer.start, *ids, tokenizer.stop])
            subjects.append(subject)
            known.append((slot, word) in shown)
    return torch.tensor(rows), torch.tensor(subjects), torch.tensor(known)


def begun(source: FinetuneSource | None, vocab: int, seed: int) -> torch.nn.Module:
    """A classifier with the weights of the source, its output layer new; without a source, all new."""
    config = TextClassifierConfig(encoder=encoder(vocab), classes=len(SUBJECTS))
    if source is None:
        return build_model(config, seed=seed)
    fitted = begin_with(config, source.model, "pretrained")
    model = build_model(fitted, seed=seed)
    model.load_state_dict(initial_weights(model, fitted, DataConfig(), source).weights)
    return model


def accuracy(source: FinetuneSource | None, tokenizer: Tokenizer, labelled: int, seed: int) -> float:
    """The share of words without a label whose subject is right, after fine-tuning on those with one."""
    rows, subjects, known = examples(tokenizer, labelled, random.Random(seed))
    model = begun(source, tokenizer.size, seed)

    def loss(step: int) -> Tensor:
        return F.cross_entropy(model(rows[known]), subjects[known])

    fit_model(model, loss, steps=TUNING_STEPS, rate=1e-3, what="fine-tuning")
    return share_right(model, rows[~known], subjects[~known])


def run(parameters: TuningParameters, seed: int, quick: bool) -> LabOutcome:
    """Pretrain once, fine-tune for each number of labels."""
    tokenizer, source = pretrained(seed, min(QUICK_STEPS, parameters.steps) if quick else parameters.steps)
    repeats = QUICK_REPEATS if quick else REPEATS
    found = {
        (count, with_source is not None): [
            accuracy(with_source, tokenizer, count, 100 * seed + repeat) for repeat in range(repeats)
        ]
        for count in WORDS_LABELLED
        for with_source in (source, None)
    }
    mean = {key: sum(values) / len(values) for key, values in found.items()}
    taken = initial_weights(
        begun(None, tokenizer.size, 0), TextClassifierConfig(encoder=encoder(tokenizer.size), classes=6),
        DataConfig(), source,
    )  # fmt: skip
    checks = [
        *(
            at_least(f"{6 * n} labels: points that pretraining is ahead", 100 * (mean[n, True] - mean[n, False]), 10.0)
            for n in WORDS_LABELLED
        ),
        at_most("from scratch: highest share right", max(mean[n, False] for n in WORDS_LABELLED), 0.4),
        at_least("pretrained, 18 labels: share right", mean[3, True], 0.4 if quick else 0.6),
        at_most("weights of the classifier that are new, tensors", len(taken.new), 4),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"subject of a word that no label showed, mean of {repeats} choices of labels",
            header=("labels", "pretrained", "from scratch", "chance"),
            rows=[(6 * n, mean[n, True], mean[n, False], 1 / len(SUBJECTS)) for n in WORDS_LABELLED],
            note=f"{len(taken.taken)} tensors come from the BERT, new are: {', '.join(taken.new)}.",
        )
    ]
    notes = [
        "From scratch, a word without a label is an unknown vector: more labels help those words alone. The pretrained"
        " model has learned from text without labels which words keep company, and a label for one is a label for all."
    ]
    return LabOutcome(tables=tables, figures=[_figure(found, mean)], checks=checks, notes=notes)


def _figure(found: dict[tuple[int, bool], list[float]], mean: dict[tuple[int, bool], float]) -> LabFigure:
    figure, (axes,) = draw.panels(1, height=3.3)
    at = [6 * n for n in WORDS_LABELLED]
    for number, begins in enumerate((True, False)):
        each = [[100 * x for x in found[n, begins]] for n in WORDS_LABELLED]
        draw.line(
            axes, at, [100 * mean[n, begins] for n in WORDS_LABELLED], "pretrained" if begins else "from scratch",
            number, low=[min(x) for x in each], high=[max(x) for x in each],
        )  # fmt: skip
    draw.reference(axes, 100 / len(SUBJECTS), "chance")
    axes.set_xticks(at)
    axes.set_ylim(0, 104)
    draw.style(axes, "Words that no label showed", "labels", "subject right (%)", legend="center right")
    alt = "Share of unlabelled words whose subject is right, by labels: " + "; ".join(
        f"{6 * n}: pretrained {mean[n, True]:.0%}, from scratch {mean[n, False]:.0%}" for n in WORDS_LABELLED
    )
    return LabFigure(alt=alt + ".", figure=figure)


LAB = Lab(
    name="tuning",
    chapter=8,
    title="few labels, with and without pretraining",
    claim="With one to three labelled words a subject, a classifier that begins with a BERT's weights knows the subject"
    " of words that no label showed; from scratch it guesses, however many labels the other words have.",
    slides=(Slide("004", "p. 57", 667),),
    parameters=TuningParameters,
    run=run,
    mechanism=("begun",),
    exercise=Exercise(
        function="begun",
        task="Without a source, build the classifier TextClassifierConfig(encoder=encoder(vocab), classes=…)."
        ' With one, begin_with(config, source.model, "pretrained") gives the config that fits, and'
        " initial_weights(model, config, DataConfig(), source).weights all weights of the model, those of"
        " the source among them.",
        hints=(
            "There is a class for each of SUBJECTS.",
            "build_model(config, seed=seed) draws new weights; what is pretrained has to be loaded into it.",
            "model.load_state_dict(initial_weights(…).weights).",
        ),
        bugs=(
            PlantedBug(
                right="model.load_state_dict(initial_weights(model, fitted, DataConfig(), source).weights)",
                wrong="initial_weights(model, fitted, DataConfig(), source)",
                fails="18 labels: points",
                hint="Does the model have the pretrained weights in the end?",
            ),
        ),
    ),
)
