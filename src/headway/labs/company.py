"""Words that keep the same company become alike: a small GPT on sentences with made-up words.

The distributional hypothesis (Harris 1954; Firth 1957): a word is known by the company it keeps. Sentences come from a
grammar in which three words of a kind may stand at the same places. Nothing tells the model of kinds; it predicts the
next word. Similarity is the cosine of two words' vectors, the rows of the embedding, which is the output matrix, too.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit_model
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most
from headway.models import Gpt, GptConfig, build_model
from headway.plots import lab_figures as draw

KINDS = {
    "adjective": ("special", "extraordinary", "blicket"),
    "noun": ("restaurant", "cat", "wug"),
    "verb": ("likes", "finds", "daxes"),
    "adverb": ("today", "often", "zup"),
}
WORDS = ("START", "the", *(word for kind in KINDS.values() for word in kind))
IDS = {word: index for index, word in enumerate(WORDS)}
SHOWN = tuple(word for kind in KINDS.values() for word in kind)
PATTERN = ("the", "adjective", "noun", "verb", "the", "adjective", "noun", "adverb")
BATCH, QUICK_STEPS, SNAPSHOTS = 32, 200, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyParameters:
    """How long is trained."""

    steps: int = 400  # of training, 32 sentences each

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def sentences(count: int, generator: torch.Generator) -> Tensor:
    """Sentences (count, 9) of the grammar, from START on; each word of a kind is as likely as the others."""
    columns = [torch.full((count,), IDS["START"])]
    for part in PATTERN:
        ids = torch.tensor([IDS[word] for word in KINDS.get(part, (part,))])
        columns.append(ids[torch.randint(len(ids), (count,), generator=generator)])
    return torch.stack(columns, 1)


def cosines(model: Gpt) -> Tensor:
    """The cosine of each pair of words (12, 12)."""
    vectors = model.embedding.weight.detach()[[IDS[word] for word in SHOWN]]
    return F.cosine_similarity(vectors[:, None], vectors[None], dim=-1)


def of_kind(table: Tensor, *, same: bool) -> Tensor:
    """The cosines of all pairs of two words of the same kind, or of different ones."""
    kind = {word: name for name, words in KINDS.items() for word in words}
    pairs = [
        float(table[a, b])
        for a, b in itertools.combinations(range(len(SHOWN)), 2)
        if (kind[SHOWN[a]] == kind[SHOWN[b]]) == same
    ]
    return torch.tensor(pairs)


def run(parameters: CompanyParameters, seed: int, quick: bool) -> LabOutcome:
    """Train, with the cosines at a few steps."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    config = GptConfig(vocab=len(WORDS), context=len(PATTERN), width=32, layers=1, heads=2)
    model = cast(Gpt, build_model(config, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    every = max(1, steps // SNAPSHOTS)
    path: dict[int, Tensor] = {}

    def loss(step: int) -> Tensor:
        if step % every == 0:
            path[step] = cosines(model)
        lines = sentences(BATCH, generator)
        return F.cross_entropy(model(lines[:, :-1]).flatten(0, 1), lines[:, 1:].flatten())

    losses = fit_model(model, loss, steps=steps, rate=5e-3)
    path[steps] = table = cosines(model)
    same, other = of_kind(table, same=True), of_kind(table, same=False)
    first = of_kind(path[0], same=True)
    at = {word: place for place, word in enumerate(SHOWN)}
    special = float(table[at["special"], at["extraordinary"]])
    checks = [
        at_least("same company: lowest cosine of two words", float(same.min()), 0.7),
        at_most("other company: highest cosine of two words", float(other.max()), 0.3),
        at_least("special and extraordinary: cosine", special, 0.7),
        at_most("before training: mean cosine of words of the same company", float(first.mean()), 0.3),
    ]
    nearest = [(word, _nearest(table, place)) for word, place in at.items()]
    tables = [
        LabTable(
            title="the two words nearest to each",
            header=("word", "nearest"),
            rows=nearest,
        ),
        LabTable(
            title="cosine of two words' vectors, mean of all pairs",
            header=("step", "same company", "other company"),
            rows=[
                (step, float(of_kind(each, same=True).mean()), float(of_kind(each, same=False).mean()))
                for step, each in path.items()
            ],
            note=f"Loss {losses[0]:.3f} at first, {losses[-1]:.3f} nats a word in the end.",
        ),
    ]
    notes = [
        "No sentence says that “special” and “extraordinary” are alike; they end up with nearly the same vector,"
        " and so do the made-up words: what a word is can be learned from where it stands, nothing more."
    ]
    return LabOutcome(tables=tables, figures=[_figure(table, path)], checks=checks, notes=notes)


def _nearest(table: Tensor, place: int) -> str:
    order = [int(n) for n in table[place].argsort(descending=True) if int(n) != place][:2]
    return ", ".join(f"{SHOWN[n]} {float(table[place, n]):.2f}" for n in order)


def _figure(table: Tensor, path: dict[int, Tensor]) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=4.0, widths=(1.35, 1))
    draw.heatmap(figure, left, table.numpy(), title="Cosine in the end", ylabel="word", rows=SHOWN, columns=SHOWN,
                 signed=True, label="cosine", limit=1.0)  # fmt: skip
    left.tick_params(axis="x", rotation=90)
    for number, alike in enumerate((True, False)):
        each = [of_kind(one, same=alike) for one in path.values()]
        draw.line(
            right, [*path], [float(x.mean()) for x in each], f"{'same' if alike else 'other'} company", number,
            low=[float(x.min()) for x in each], high=[float(x.max()) for x in each],
        )  # fmt: skip
    right.set_ylim(-0.85, 1.05)
    draw.style(right, "While it learns", "step", "cosine (mean, all pairs)", legend="center right")
    same, other = of_kind(table, same=True), of_kind(table, same=False)
    alt = (
        "Left: cosines of twelve words in a grid: four blocks of three on the diagonal are alike, the rest"
        f" is not. Right: by step, the mean cosine of words of the same company rises to {float(same.mean()):.2f}, that"
        f" of other words goes to {float(other.mean()):.2f}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="company",
    chapter=8,
    title="words are known by their company",
    claim="Two words that keep the same company get nearly the same vector (cosine above .7) from predicting the next"
    " word alone, made-up words too, while words of other company stay apart (below .3).",
    slides=(Slide("004", "p. 57", 667),),
    parameters=CompanyParameters,
    run=run,
    mechanism=("sentences", "cosines"),
    exercise=Exercise(
        function="cosines",
        task="model.embedding.weight has a row for each word, the vector of the word with this number. Return the"
        " cosine of each of the words SHOWN with each.",
        hints=(
            "The rows of model.embedding.weight.detach() that are wanted are IDS[word], word for word.",
            "A cosine is the dot product over both lengths.",
            "F.cosine_similarity(vectors[:, None], vectors[None], dim=-1).",
        ),
        bugs=(
            PlantedBug(
                right="F.cosine_similarity(vectors[:, None], vectors[None], dim=-1)",
                wrong="vectors @ vectors.mT",
                fails="same company",
                hint="A dot product is no cosine.",
            ),
        ),
    ),
)
