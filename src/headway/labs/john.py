"""Where is John? A question about one of several people, by how many clauses there are between it and the answer.

“John visiting Vienna , sister Anna visiting Rome , …, where is John”: deck 004's long relative clause as a task with
growing length. A GRU has to carry all people and places in one state to the question; the same GRU that attends to its
states looks the asked name up, and so does a transformer of two layers without any recurrence (its positions are those
of Shaw et al. 2018, which know distances alone). All are trained on few clauses and asked about more.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least
from headway.nn import (
    Alignment,
    AlignmentConfig,
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    Recurrent,
    RecurrentConfig,
    Shaw,
    StackConfig,
)
from headway.ops import Causal
from headway.plots import lab_figures as draw

PEOPLE = ("John", "Anna", "Otto", "Lisa", "Paul", "Emma", "Karl", "Mary", "Hugo", "Nora", "Ivan", "Olga")
CITIES = ("Vienna", "New York", "Rome", "Oslo", "Paris", "Lima", "Tokyo", "Cairo")
RELATIONS = ("sister", "brother", "friend")
WORDS = (*PEOPLE, *CITIES, *RELATIONS, "visiting", ",", "where", "is")
IDS = {word: number for number, word in enumerate(WORDS)}
KINDS = PLAIN, ATTENDING, TRANSFORMER = "GRU", "GRU with attention", "transformer"
QUICK_KINDS = KINDS[:2]  # a transformer finds the way from a name to its place after many hundred steps
WIDTH, BATCH, TESTED = 32, 64, 500
QUICK_STEPS, BEYOND = 300, 12
LONGEST = 5 * BEYOND + 3  # words


@dataclass(frozen=True, slots=True, kw_only=True)
class JohnParameters:
    """The sentences and the training."""

    clauses: int = 4  # of the longest sentence in training; each has a person and a place
    steps: int = 1600  # of training, each model

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        if not 2 <= self.clauses <= 8:
            raise ConfigError(f"--clauses {self.clauses}: expected 2 to 8, since up to {BEYOND} are asked about")


def questions(count: int, clauses: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Words (B, 5·clauses + 3), the city that is right (B,), and which clause has it (B,)."""
    people = torch.rand(count, len(PEOPLE), generator=generator).argsort(1)[:, :clauses]
    cities = torch.randint(len(CITIES), (count, clauses), generator=generator)
    asked = torch.randint(clauses, (count, 1), generator=generator)
    relations = IDS[RELATIONS[0]] + torch.randint(len(RELATIONS), (count, clauses), generator=generator)

    def word(name: str, columns: int) -> Tensor:
        return torch.full((count, columns), IDS[name])

    parts = [relations, people, word("visiting", clauses), cities + IDS[CITIES[0]], word(",", clauses)]
    question = torch.cat([word("where", 1), word("is", 1), people.gather(1, asked)], 1)
    return torch.cat([torch.stack(parts, 2).flatten(1), question], 1), cities.gather(1, asked)[:, 0], asked[:, 0]


class ClauseReader(nn.Module):
    """A GRU that reads a text and answers from its last state; or also from what that state attends to."""

    def __init__(self, *, attends: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), WIDTH)
        self.layer = Recurrent(WIDTH, RecurrentConfig(hidden=WIDTH, cell="gru"))
        self.attention = Alignment(WIDTH, WIDTH, AlignmentConfig(width=WIDTH)) if attends else None
        self.combine = nn.Linear(2 * WIDTH, WIDTH) if attends else None
        self.answer = nn.Linear(WIDTH, len(CITIES))

    def forward(self, words_BT: Tensor) -> Tensor:
        """(B, T) -> logits of the cities."""
        x = self.embedding(words_BT)
        states, _ = self.layer(x, self.layer.start(x, len(x)))
        last = states[:, -1]
        if self.attention is not None and self.combine is not None:
            seen = self.attention(states[:, -1:], self.attention.prepare(states, None))[:, 0]
            last = self.combine(torch.cat([last, seen], -1)).tanh()
        return self.answer(last)  # type: ignore[no-any-return]


class ClauseTransformer(nn.Module):
    """A causal transformer that reads a text and answers from its last vector."""

    def __init__(self) -> None:
        super().__init__()
        block = BlockConfig(
            attention=AttentionConfig(width=WIDTH, heads=4), feedforward=FeedForwardConfig(inner=2 * WIDTH), place="pre"
        )
        self.embedding = nn.Embedding(len(WORDS), WIDTH)
        self.stack = StackConfig(layers=2, block=block, context=LONGEST, position=Shaw()).build()
        self.answer = nn.Linear(WIDTH, len(CITIES))

    def forward(self, words_BT: Tensor) -> Tensor:
        """(B, T) -> logits of the cities."""
        return self.answer(self.stack(self.embedding(words_BT), mask=Causal())[:, -1])  # type: ignore[no-any-return]


def build(kind: str) -> nn.Module:
    """A model of one of the KINDS."""
    return ClauseTransformer() if kind == TRANSFORMER else ClauseReader(attends=kind == ATTENDING)


def train(model: nn.Module, clauses: int, steps: int, seed: int, what: str) -> None:
    """Cross-entropy of the answer on new sentences of 1 to `clauses` clauses."""
    generator = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        count = int(torch.randint(1, clauses + 1, (1,), generator=generator))
        words, right, _ = questions(BATCH, count, generator)
        return F.cross_entropy(model(words), right)

    warm_up = steps // 12 if isinstance(model, ClauseTransformer) else 0  # a GRU needs none
    fit(model.parameters(), loss, steps=steps, learning_rate=5e-3, what=what, clip=1.0, warm_up=warm_up)
    model.eval()


@torch.no_grad()
def right(model: nn.Module, clauses: int, generator: torch.Generator) -> tuple[float, float]:
    """The share of answers that are right; and of those about the first clause, the farthest from the question."""
    words, cities, asked = questions(TESTED, clauses, generator)
    found = (model(words).argmax(-1) == cities).float()
    return float(found.mean()), float(found[asked == 0].mean())


@torch.no_grad()
def weights(model: nn.Module, clauses: int, generator: torch.Generator) -> tuple[Tensor, list[str]]:
    """What the last state of one sentence attends to (T,), and its words."""
    words, _, _ = questions(1, clauses, generator)
    attention = model.attention
    assert isinstance(attention, Alignment)
    kept: list[Tensor] = []
    hook = attention.tap_weights.register_forward_hook(lambda tap, inputs, out: kept.append(out))
    model(words)
    hook.remove()
    return kept[0][0, 0], [WORDS[word] for word in words[0].tolist()]


def run(parameters: JohnParameters, seed: int, quick: bool) -> LabOutcome:
    """Each model by the number of clauses."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    trained = min(3, parameters.clauses) if quick else parameters.clauses
    counts = sorted({1, 2, 3, trained, min(2 * trained, BEYOND), BEYOND})
    models = {kind: build(kind) for kind in (QUICK_KINDS if quick else KINDS)}
    shares: dict[str, dict[int, tuple[float, float]]] = {}
    for name, model in models.items():
        train(model, trained, steps, seed, f"training, {name}")
        generator = torch.Generator().manual_seed(seed + 1000)
        shares[name] = {count: right(model, count, generator) for count in counts}
    plain = shares[PLAIN]
    checks = [at_least("GRU: right with one clause", plain[1][0], 0.9 if quick else 0.99)]
    for name, found in shares.items():
        if name != PLAIN:
            checks += [
                at_least(f"{name}: right with up to {trained} clauses, as trained, the least",
                         min(found[n][0] for n in counts if n <= trained), 0.8 if quick else 0.95),
                at_least(f"{name}: points ahead of the GRU with {trained} clauses, as trained",
                         found[trained][0] - plain[trained][0], 0.2),
                at_least(f"{name}: points ahead with {BEYOND} clauses, never trained",
                         found[BEYOND][0] - plain[BEYOND][0], 0.2),
            ]  # fmt: skip
    tables = [
        LabTable(
            title=f"right answers by clauses; {steps} steps on 1 to {trained}",
            header=("clauses", *shares, *(f"{name}, about the first clause" for name in shares)),
            rows=[(n, *(found[n][0] for found in shares.values()), *(found[n][1] for found in shares.values()))
                  for n in counts],
            note=f"Chance is {1 / len(CITIES):.3f}; naming a city of the sentence at random is right about once in as"
            " many tries as it has clauses.",
        )
    ]  # fmt: skip
    notes = [
        "Deck 004's own sentence asks for the last of its two cities, New York. What a recurrent network cannot do is"
        " carry every person and place until one of them is asked for; attention looks at them when the"
        f" question is known, and does so with {BEYOND} clauses after training on {trained}. The transformer has no"
        " state to carry anything in: all it knows of a word that was read long ago, it looks up. Its positions (those"
        " of Shaw et al. 2018) tell it which city stands beside which name."
    ]
    shown, words = weights(models[ATTENDING], 3, torch.Generator().manual_seed(seed))
    most = shown.argsort(descending=True)[:3].tolist()
    tables.append(
        LabTable(
            title=f"what “{' '.join(words[-3:])}” attends to: the three words with most weight",
            header=("word", "place in the text", "weight"),
            rows=[(words[at], at + 1, float(shown[at])) for at in most],
            note=f"The text is “{' '.join(words)}”.",
        )
    )
    return LabOutcome(tables=tables, figures=[_figure(shares, (shown, words), trained)], checks=checks, notes=notes)


def _figure(
    shares: dict[str, dict[int, tuple[float, float]]], shown: tuple[Tensor, list[str]], trained: int
) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=4.2)
    for number, (name, found) in enumerate(shares.items()):
        draw.line(left, [*found], [100 * each[0] for each in found.values()], name, number)
    draw.reference(left, trained, "longest in training", vertical=True)
    draw.reference(left, 100 / len(CITIES))
    left.text(12.3, 100 / len(CITIES) - 1.5, "chance", ha="right", va="top", fontsize=8.5, color=draw.SOFT)
    left.set_ylim(0, 104)
    draw.style(left, "Where is John?", "clauses of the sentence", "% right", legend="center right")
    weights, words = shown
    right.barh(range(len(words)), weights.numpy(), color=draw.BLUE, height=0.7)
    right.set_yticks(range(len(words)), words)
    right.invert_yaxis()
    right.set_xlim(0, 1.02)
    draw.style(right, "What the question attends to", "weight", "")
    right.tick_params(axis="y", labelsize=8)
    told = "; ".join(f"{name} from {found[1][0]:.0%} to {found[BEYOND][0]:.0%}" for name, found in shares.items())
    alt = (
        f"Left: right answers by clauses, from one to {BEYOND}: {told}. Right: the weights of one question,"
        f" “{' '.join(words[-3:])}”, over its words."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="john",
    chapter=4,
    title="where is John?",
    claim="A recurrent network that must carry every person and place to the question fails as clauses are added; the"
    " same network that attends to its states answers, and so does a transformer, also about sentences longer than any"
    " in training.",
    slides=(Slide("004", "p. 3", 20), Slide("004", "p. 5", 48)),
    parameters=JohnParameters,
    run=run,
    mechanism=("build",),
    exercise=Exercise(
        function="ClauseReader.forward",
        cut=("seen =", "last = self.combine("),
        task="Let the last state attend to all states, and make `last` (B, D) of it and of what it saw:"
        " self.attention.prepare(states, None) gives keys and values, self.attention(queries (B, 1, D), …)"
        " what is attended to (B, 1, D), self.combine maps 2·D features to D, with a tanh behind it.",
        hints=(
            "Only the last state knows what was asked for: it is the query.",
            "states[:, -1:] keeps the axis of time, which the attention wants; [:, 0] takes it away again.",
            "last = self.combine(torch.cat([last, seen], -1)).tanh().",
        ),
        bugs=(
            PlantedBug(
                right="self.attention(states[:, -1:]",
                wrong="self.attention(states[:, :1]",
                fails="GRU with attention: right",
                hint="Which state knows the question?",
            ),
        ),
    ),
)
