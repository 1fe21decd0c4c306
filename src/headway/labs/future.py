"""A language model that sees the future, and one that does not: loss in training, and what each then says.

Without a mask each position sees the word that it has to predict: the loss falls to nearly 0, and nothing is learned
about the language. When it writes, there is no future to see. With the causal mask the loss stays at what the language
leaves open, the text is right, and no change of later words can move an earlier output by a single bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import sample
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit_model
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, within
from headway.models import Gpt, GptConfig, build_model
from headway.ops import Causal, Mask, Window
from headway.plots import lab_figures as draw

START, EOS = "<start>", "<eos>"
NOUNS, VERBS, AND = ("bird", "cat", "dog", "fish", "horse", "mouse"), ("ate", "chased", "saw"), "and"
WORDS = (START, EOS, AND, *NOUNS, *VERBS)
IDS = {word: number for number, word in enumerate(WORDS)}
LENGTH = 7  # words of a sentence: “dog chased cat and cat saw dog”
# Nats per token that no model can predict: the first noun, another one, two verbs; the rest and EOS are certain.
FLOOR = (math.log(len(NOUNS)) + math.log(len(NOUNS) - 1) + 2 * math.log(len(VERBS))) / (LENGTH + 1)
BATCH, EDITS = 64, 100
QUICK_STEPS, QUICK_SAMPLES = 250, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureParameters:
    """Training and sampling."""

    steps: int = 1000  # of training, each model
    samples: int = 1000  # sentences that each model says

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        positive("--samples", self.samples)


def sentences(count: int, generator: torch.Generator) -> Tensor:
    """START, “dog chased cat and cat saw dog”, EOS, drawn at random (B, 9)."""
    nouns = IDS[NOUNS[0]] + torch.rand(count, len(NOUNS), generator=generator).argsort(1)[:, :2]  # two different ones
    verbs = IDS[VERBS[0]] + torch.randint(len(VERBS), (count, 2), generator=generator)
    start, both, end = (torch.full((count,), IDS[word]) for word in (START, AND, EOS))
    first, second = nouns.unbind(1)
    return torch.stack([start, first, verbs[:, 0], second, both, second, verbs[:, 1], first, end], 1)


def mask(*, causal: bool) -> Mask:
    """Which words a position sees: those up to itself, or all."""
    return Causal() if causal else Window(64)


def build(*, causal: bool, seed: int) -> Gpt:
    """A GPT of two layers, with its mask or without."""
    config = GptConfig(vocab=len(WORDS), context=16, width=64, layers=2, heads=4, tied=False)
    model = cast(Gpt, build_model(config, seed=seed))
    model.masks = [mask(causal=causal)]
    return model


def train(model: Gpt, steps: int, seed: int, what: str) -> list[float]:
    """Next-word prediction -> the loss in nats per token by step."""
    generator = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        tokens = sentences(BATCH, generator)
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return fit_model(model, loss, steps=steps, what=what)  # with its warm-up: one seed in ten is not done without


@torch.no_grad()
def writing_loss(model: Gpt, generator: torch.Generator) -> float:
    """Nats per token where, as in writing, there are no later words to see."""
    before, model.masks = model.masks, [Causal()]
    tokens = sentences(500, generator)
    found = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    model.masks = before
    return float(found)


def says(model: Gpt, count: int, seed: int) -> list[str]:
    """Sentences sampled from the model."""
    limits = SequenceLimits(start=torch.full((count, 1), IDS[START]), stop=IDS[EOS], max_tokens=14)
    return [" ".join(WORDS[token] for token in line) for line in sample(model, limits, seed=seed)]


def is_sentence(line: str) -> bool:
    """Whether a line is one of the language: the two nouns come again in the other order."""
    words = line.split()
    if len(words) != LENGTH:
        return False
    first, did, second, both, again, then, back = words
    nouns = first in NOUNS and second in NOUNS and first != second
    return nouns and {did, then} <= {*VERBS} and (both, again, back) == (AND, second, first)


@torch.no_grad()
def moved_by_edits(model: Gpt, generator: torch.Generator) -> tuple[int, float]:
    """Outputs before an edited word that are not the same to the bit, of EDITS edits, and the largest change."""
    count, largest = 0, 0.0
    for _ in range(EDITS):
        tokens = sentences(1, generator)[:, :-1]
        at = int(torch.randint(1, tokens.shape[1], (1,), generator=generator))
        edited = tokens.clone()
        edited[0, at] = (edited[0, at] + int(torch.randint(1, len(WORDS), (1,), generator=generator))) % len(WORDS)
        before, after = model(tokens)[0, :at], model(edited)[0, :at]
        count += not torch.equal(before, after)
        largest = max(largest, float((before - after).abs().max()))
    return count, largest


def run(parameters: FutureParameters, seed: int, quick: bool) -> LabOutcome:
    """Train with and without the mask, sample, edit the future."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    count = min(QUICK_SAMPLES, parameters.samples) if quick else parameters.samples
    losses, lines, edits, alone = {}, {}, {}, {}
    for causal in (False, True):
        model = build(causal=causal, seed=seed)
        losses[causal] = train(model, steps, seed, f"training, {'causal mask' if causal else 'no mask'}")
        lines[causal] = says(model, count, seed)
        alone[causal] = writing_loss(model, torch.Generator().manual_seed(seed + 1000))
        edits[causal] = moved_by_edits(model, torch.Generator().manual_seed(seed + 1000))
    share = {causal: sum(map(is_sentence, found)) / count for causal, found in lines.items()}
    last = {causal: sum(found[-20:]) / 20 for causal, found in losses.items()}
    checks = [
        at_most("no mask: loss at the end of training, nats per token", last[False], 0.05),
        at_least("no mask: loss where there is no future to see, as in writing", alone[False], 2 * FLOOR),
        at_least("share of sentences: causal mask over no mask, in points", share[True] - share[False], 0.3),
        within(f"causal mask: loss, nats per token; the language leaves {FLOOR:.3f} open", last[True], FLOOR - 0.02,
               FLOOR + 0.05),
        at_least("causal mask: share of what it says that is a sentence", share[True], 0.7 if quick else 0.96),
        equals(f"causal mask: of {EDITS} edits of a later word, those that move an earlier output by a bit",
               edits[True][0], 0),
        at_least(f"no mask: of {EDITS} edits, those that do", edits[False][0], 0.9 * EDITS),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"the same GPT after {steps} steps",
            header=(
                "",
                "loss in training, nats per token",
                "loss in writing",
                f"sentences among {count:,} samples",
                f"earlier outputs moved by edits of later words, of {EDITS}",
            ),
            rows=[
                ("causal mask" if causal else "no mask", last[causal], alone[causal], share[causal], edits[causal][0])
                for causal in (False, True)
            ],
            note=f"No model that predicts can go below {FLOOR:.4f} nats: (ln 6 + ln 5 + 2 ln 3) / 8.",
        ),
        LabTable(
            title="the first things they say",
            header=("no mask", "causal mask"),
            rows=[(a or "(nothing)", b or "(nothing)") for a, b in zip(lines[False][:5], lines[True][:5], strict=True)],
        ),
    ]
    notes = [
        "A loss below what the language leaves open is the sign of a leak. The mask sets the scores of later words to"
        " −∞ before the softmax, and exp(−∞) = 0: a weight of exactly 0, so that earlier outputs are equal to the bit."
        " (The softmax of a row of nothing but −∞ is not 0 but undefined, as deck 004's “Softmax(−∞) = 0” hides.)"
    ]
    return LabOutcome(tables=tables, figures=[_figure(losses, share)], checks=checks, notes=notes)


def _figure(losses: dict[bool, list[float]], share: dict[bool, float]) -> LabFigure:
    figure, (left, middle, right) = draw.panels(3, height=3.4, widths=(1.5, 0.8, 0.9))
    for number, causal in enumerate((False, True)):
        name = "causal mask" if causal else "no mask"
        draw.line(left, range(len(losses[causal])), losses[causal], name, number, markers=False)
    draw.reference(left, FLOOR, "what the language leaves open")
    left.set_ylim(bottom=-0.03)
    draw.style(left, "Loss in training", "step", "loss (nats per token)", legend="upper right")
    middle.bar(range(2), [100 * share[causal] for causal in (False, True)], color=[draw.BLUE, draw.ORANGE], width=0.6)
    for n, causal in enumerate((False, True)):
        middle.annotate(f"{share[causal]:.0%}", (n, 100 * share[causal] + 2), ha="center", fontsize=9)
    middle.set_xticks(range(2), ["no mask", "causal"])
    middle.set_ylim(0, 112)
    draw.style(middle, "What it says", "", "% that are sentences")
    seen = mask(causal=True).dense(6, 6)[0, 0].float()
    words = ("START", "dog", "ate", "fish", "and", "fish")
    draw.heatmap(figure, right, seen, title="Causal mask", xlabel="key", ylabel="query", rows=words,
                 columns=words, label="may attend")  # fmt: skip
    right.tick_params(axis="x", rotation=90)
    alt = (
        f"Left: the loss falls to {losses[False][-1]:.3f} nats without a mask and to {losses[True][-1]:.3f} with it,"
        f" where the language leaves {FLOOR:.3f} open. Middle: {share[False]:.0%} and {share[True]:.0%} of what they"
        " say are sentences. Right: the causal mask of six words, a triangle."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="future",
    chapter=5,
    title="a model that sees the future",
    claim="Trained without a mask, a language model copies the word it should predict: its loss falls below what is"
    " possible, what it says is mostly nonsense; with the causal mask no later word moves an earlier output.",
    slides=(Slide("002", "p. 43"), Slide("003", "Masking", 292), Slide("004", "p. 47–48", 576)),
    parameters=FutureParameters,
    run=run,
    mechanism=("mask",),
    exercise=Exercise(
        function="moved_by_edits",
        task="EDITS times: draw a sentence, exchange one word behind START by another one, and compare the"
        " outputs at the places before it. Count the edits that change one of them by a bit, and keep the"
        " largest change.",
        hints=(
            "sentences(1, generator)[:, :-1] is what the model reads; draw the place from 1 on.",
            "Adding 1 to len(WORDS) − 1 to a word's number, modulo len(WORDS), gives another word for certain.",
            "Compare model(tokens)[0, :at] with model(edited)[0, :at] by torch.equal.",
        ),
        bugs=(
            PlantedBug(
                right="model(tokens)[0, :at], model(edited)[0, :at]",
                wrong="model(tokens)[0], model(edited)[0]",
                fails="causal mask: of 100 edits",
                hint="Which outputs must not change?",
            ),
        ),
    ),
)
