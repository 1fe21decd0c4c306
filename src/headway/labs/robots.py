"""Where the order of T inputs matters, and what a transformer with learned positions makes of it.

Order matters where the answer cannot be told from the inputs in any order: of pixels and words, not of robots. Two
models then learn the farthest of robots on a line (order does not matter) and the first less the last (it does). The
slides say that where order does not matter the position vectors are learned to be the same or zero. They are not:
training finds a model whose output ignores them, and leaves the vectors different.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import permutations
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals
from headway.labs.small_digits import digits
from headway.models import VectorTransformer, VectorTransformerConfig, build_model
from headway.models.vector_transformer import Features, MeanPool
from headway.nn import Learned
from headway.nn.positions import EncoderPosition
from headway.plots import lab_figures as draw

BATCH, TESTED, SHUFFLES = 128, 1000, 8
QUICK_STEPS = 300
SIDE, KNOWN_DIGITS, NEW_DIGITS = 8, 4000, 1000  # of pictures
NOUNS = ("dog", "owner", "cat", "child", "farmer")
TASKS = {"order does not matter": "the farthest robot", "order matters": "the first robot minus the last"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsParameters:
    """The robots and the training."""

    robots: int = 6  # T
    steps: int = 700  # of training, for each task

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        if not 3 <= self.robots <= 32:
            raise ConfigError(f"--robots {self.robots}: expected 3 to 32")


def in_no_order(x: Tensor) -> Tensor:
    """Inputs (N, T) sorted: which they are is kept, where each was is lost."""
    return x.sort(-1).values


def robots_right(places: Tensor, *, ordered: bool) -> float:
    """The share of rows (N, T) whose farthest robot is also that of the inputs as they are read."""
    read = places if ordered else in_no_order(places)
    return float((target("order does not matter", read) == target("order does not matter", places)).float().mean())


def digits_right(generator: torch.Generator, *, ordered: bool) -> float:
    """The share of pictures whose digit is that of the nearest of many known ones, over T = 64 pixels."""
    images, labels = digits(KNOWN_DIGITS + NEW_DIGITS, SIDE, generator)
    pixels = images.flatten(1) if ordered else in_no_order(images.flatten(1))
    nearest = torch.cdist(pixels[KNOWN_DIGITS:], pixels[:KNOWN_DIGITS]).argmin(1)
    return float((labels[nearest] == labels[KNOWN_DIGITS:]).float().mean())


def sentences_right(*, ordered: bool) -> float:
    """“The dog licks the owner”, of any two nouns: who licks? The share that is right with the best answer to each."""
    answers: dict[tuple[int, ...], Counter[str]] = {}
    words = sorted({"the", "licks", *NOUNS})
    for subject, receiver in permutations(NOUNS, 2):
        row = torch.tensor([[words.index(word) for word in ("the", subject, "licks", "the", receiver)]])
        read = row if ordered else in_no_order(row)
        answers.setdefault(tuple(read[0].tolist()), Counter())[subject] += 1
    return sum(max(each.values()) for each in answers.values()) / sum(each.total() for each in answers.values())


def without_order(count: int, seed: int) -> list[tuple[str, str, float, float, float]]:
    """T inputs, what is asked of them, the share that is right in order and in no order, and that of a guess."""
    places = torch.randn(TESTED, count, generator=torch.Generator().manual_seed(seed + 2000))
    robots = [robots_right(places, ordered=kept) for kept in (True, False)]
    pixels = [digits_right(torch.Generator().manual_seed(seed), ordered=kept) for kept in (True, False)]
    words = [sentences_right(ordered=kept) for kept in (True, False)]
    return [
        (f"{count} robots", "how far is the farthest? (the slide: searching)", robots[0], robots[1], 1 / count),
        (f"{SIDE**2} pixels", "which digit? (the slide: birds)", pixels[0], pixels[1], 0.1),
        ("5 words", "“The dog licks the owner”: who licks?", words[0], words[1], 1 / len(NOUNS)),
    ]


def target(task: str, places_BT: Tensor) -> Tensor:
    """What is to be said of robots at these places (B,)."""
    return places_BT.amax(1) if task == "order does not matter" else places_BT[:, 0] - places_BT[:, -1]


def position() -> EncoderPosition | None:
    """How positions are encoded."""
    return Learned()


def train(task: str, count: int, steps: int, seed: int) -> tuple[VectorTransformer, list[float]]:
    """A transformer of vectors with learned positions, trained on one task -> the model and its losses."""
    config = VectorTransformerConfig(
        features=Features(names=("place",), means=(0.0,), deviations=(1.0,)),
        outputs=1, width=32, layers=2, heads=4, inner=64, position=position(), context=count, pool=MeanPool(),
    )  # fmt: skip
    model = cast(VectorTransformer, build_model(config, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    places = model.encoder.input_positions
    if places is not None and places.table is not None:  # as nn.Embedding of the slide starts, far from zero
        nn.init.normal_(places.table, generator=generator)

    def loss(step: int) -> Tensor:
        robots = torch.randn(BATCH, count, generator=generator)
        return F.mse_loss(model(robots.unsqueeze(-1))[:, 0], target(task, robots))

    losses = fit(model.parameters(), loss, steps=steps, learning_rate=3e-3, what=f"training, {task}", clip=1.0)
    return model.eval(), losses


@torch.no_grad()
def measured(model: VectorTransformer, task: str, count: int, generator: torch.Generator) -> tuple[float, float]:
    """The error of the output, and how far it moves when the robots are shuffled: both over the target's deviation."""
    places = torch.randn(TESTED, count, generator=generator)
    right = target(task, places)
    said = model(places.unsqueeze(-1))[:, 0]
    error = float((said - right).square().mean().sqrt() / right.std())
    moved = []
    for _ in range(SHUFFLES):
        order = torch.rand(TESTED, count, generator=generator).argsort(1)
        moved.append((model(places.gather(1, order).unsqueeze(-1))[:, 0] - said).square().mean())
    return error, float(torch.stack(moved).mean().sqrt() / right.std())


def spread(model: VectorTransformer) -> float:
    """How different the position vectors are: root mean square distance from their mean, per feature; NaN without."""
    places = model.encoder.input_positions
    if places is None or places.table is None:
        return float("nan")
    table = places.table.detach()
    return float((table - table.mean(0)).square().mean().sqrt())


def run(parameters: RobotsParameters, seed: int, quick: bool) -> LabOutcome:
    """Both tasks with the same model."""
    count = parameters.robots
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    found = {}
    for task in TASKS:
        model, losses = train(task, count, steps, seed)
        places = model.encoder.input_positions
        table = torch.zeros(count, 1) if places is None or places.table is None else places.table.detach()
        generator = torch.Generator().manual_seed(seed + 1000)
        found[task] = (*measured(model, task, count, generator), spread(model), table, losses)
    free, ordered = found.values()
    robots, pixels, words = rows = without_order(count, seed)
    checks = [
        equals("robots in no order: right answers", robots[3], 1.0),
        at_least("pixels in order: digits right, by the nearest known picture", pixels[2], 0.8),
        at_most("pixels in no order: digits right, by the nearest known picture", pixels[3], 0.6),
        equals("words in order: right answers", words[2], 1.0),
        equals("words in no order: right answers", words[3], 0.5),
        at_most("order does not matter: error of the answer, over its deviation", free[0], 0.25 if quick else 0.1),
        at_most("order matters: error of the answer, over its deviation", ordered[0], 0.25 if quick else 0.1),
        at_most("order does not matter: change of the answer when shuffled, over its deviation", free[1],
                0.15 if quick else 0.05),
        at_least("order matters: change of the answer when shuffled, over its deviation", ordered[1], 0.5),
        at_least("order does not matter: the position vectors do not become zero or the same, their spread", free[2],
                 0.2),
        at_least("order matters: spread of the position vectors", ordered[2], 0.2),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="does the order of T inputs matter? share of right answers",
            header=("inputs", "what is asked", "inputs in order", "in no order", "by chance"),
            rows=rows,
            note="In no order: sorted by value, so that the place of an input says nothing of it. Where nothing is lost"
            " then, order does not matter. Digits by the nearest of"
            f" {KNOWN_DIGITS:,} known pictures; words by the best answer there is.",
        ),
        LabTable(
            title=f"{count} robots, learned positions, {steps} steps",
            header=("task", "target", "error, in deviations of the target",
                    "change when shuffled, in deviations", "spread of the position vectors"),
            rows=[(task, TASKS[task], values[0], values[1], values[2]) for task, values in found.items()],
            note="The vectors start as those of nn.Embedding, with a spread of about 1.",
        )
    ]  # fmt: skip
    notes = [
        "“If order does not matter, learn θ to be the same/zero” (deck 001): what becomes zero is the effect, not the"
        f" vectors. Their spread is {free[2]:.3f} where order does not matter and {ordered[2]:.3f} where it does, while"
        f" shuffling moves the answer by {free[1]:.3f} and {ordered[1]:.2f} deviations. Nothing in the loss asks for"
        " zero vectors; to have the answer ignore order by construction, leave positions out (lab permutation)."
    ]
    return LabOutcome(tables=tables, figures=[_figure(found)], checks=checks, notes=notes)


def _figure(found: dict[str, tuple[float, float, float, Tensor, list[float]]]) -> LabFigure:
    figure, (left, middle, right) = draw.panels(3, height=3.5, widths=(0.8, 1.1, 1.1))
    changes = [values[1] for values in found.values()]
    left.bar(range(2), changes, color=[draw.BLUE, draw.ORANGE], width=0.6)
    for n, change in enumerate(changes):
        left.annotate(f"{change:.3f}", (n, change + 0.02), ha="center", fontsize=9)
    left.set_xticks(range(2), ["order does\nnot matter", "order\nmatters"])
    left.set_ylim(0, 1.15 * max(changes))
    draw.style(left, "Shuffled robots", "", "change of the answer (deviations)")
    limit = max(float(values[3].abs().max()) for values in found.values())
    for axes, (task, values) in zip((middle, right), found.items(), strict=True):
        draw.heatmap(
            figure, axes, values[3], title=task.capitalize(), xlabel="feature", ylabel="position", signed=True,
            rows=[str(n + 1) for n in range(len(values[3]))], label="learned value", limit=limit,
        )  # fmt: skip
    free, ordered = found.values()
    alt = (
        f"Left: shuffling the robots changes the answer by {free[1]:.3f} deviations where order does not matter and by"
        f" {ordered[1]:.2f} where it does. Right: the learned position vectors of both tasks as heat maps; neither is"
        f" zero, their spreads are {free[2]:.3f} and {ordered[2]:.3f}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="robots",
    chapter=6,
    title="does order matter, and does the model find out?",
    claim="Trained with learned positions on a task in which order does not matter, a transformer's answer stops caring"
    " about order, but its position vectors do not become zero or the same, as the slides have it.",
    slides=(Slide("000", "Positional Encoding 34–36", 1120), Slide("001", "Positional Encoding 50", 1627)),
    parameters=RobotsParameters,
    run=run,
    mechanism=("position", "target", "in_no_order"),
    exercise=Exercise(
        function="measured",
        task="Put robots at random places. The error is the root mean square of said − right; the change is the"
        " root mean square of what moves when the robots of each row are shuffled, over SHUFFLES shuffles."
        " Both are divided by right.std().",
        hints=(
            "The model takes (B, T, 1) and says (B, 1).",
            "torch.rand(TESTED, count, generator=generator).argsort(1) is a random order for each row;"
            " gather takes it.",
            "Mean of the squares over rows and shuffles first, then the root.",
        ),
        bugs=(
            PlantedBug(
                right="places.gather(1, order)",
                wrong="places",
                fails="order matters: change",
                hint="Are the robots shuffled at all?",
            ),
        ),
    ),
)
