"""Teacher forcing and free running: the same model, fed the right words or its own.

In training the next input is the right word, whatever the model has said (Williams and Zipser 1989); in use it is the
model's own word, so that one error changes all that follows. The text here is a rule, each number made of the two
before it modulo 11, so that a perfect model exists. Scheduled sampling feeds own words in training, too (Bengio et al.
2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, progress
from headway.metrics.accuracy_by_position import PositionReport, position_report
from headway.models import EncoderInput, Gpt, GptConfig, build_model
from headway.models.stepper import Stepper
from headway.plots import lab_figures as draw
from headway.tasks.scheduled_sampling import ScheduledSampling

NUMBERS, GIVEN, LENGTH = 11, 2, 12  # the vocabulary; words given; words in all
TIMES = 3  # x_t = x_(t−1) + 3·x_(t−2): no number within LENGTH depends on a single one of the first two
TESTED, QUICK_TESTED, BATCH = 500, 200, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcingParameters:
    """How long is trained: until the model is good, not until it is perfect."""

    until: float = 0.85  # share of right words, fed right words, at which training ends
    steps: int = 400  # of training at most, 32 lines each

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        if not 0.2 <= self.until < 1:
            raise ConfigError(f"--until {self.until}: expected at least 0.2 and below 1")


def lines(count: int, generator: torch.Generator) -> Tensor:
    """Lines (count, LENGTH) of the rule from random beginnings."""
    rows = torch.randint(NUMBERS, (count, LENGTH), generator=generator)
    for at in range(GIVEN, LENGTH):
        rows[:, at] = (rows[:, at - 1] + TIMES * rows[:, at - 2]) % NUMBERS
    return rows


class Perfect:
    """A `Stepper` that knows the rule: the state is the words so far (B, n)."""

    def __call__(self, tokens_BT: Tensor) -> Tensor:
        """Logits (B, T, V) of the next word after each."""
        before = F.pad(tokens_BT, (1, 0))[:, :-1]
        return 50.0 * F.one_hot((tokens_BT + TIMES * before) % NUMBERS, NUMBERS).float()

    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> Tensor | None:
        """Nothing so far."""
        return None

    def extend(self, tokens_BK: Tensor, state: Tensor | None, counts_B: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits (B, K, V) after each new token."""
        said = tokens_BK if state is None else torch.cat([state, tokens_BK], 1)
        return self(said)[:, -tokens_BK.shape[1] :], said

    def select(self, state: Tensor | None, rows_B: Tensor) -> Tensor | None:
        """These rows, in this order."""
        return None if state is None else state[rows_B]


@torch.no_grad()
def forced(model: Any, gold_NT: Tensor) -> Tensor:
    """The likeliest word at each place behind the given ones, after the right words (N, T − 2)."""
    words: Tensor = model(gold_NT[:, :-1]).argmax(-1)[:, GIVEN - 1 :]
    return words


@torch.no_grad()
def free(model: Stepper[Any], gold_NT: Tensor) -> Tensor:
    """The likeliest word at each place, after the model's own words (N, T − 2)."""
    fed, state, said = gold_NT[:, :GIVEN], model.start(), []
    for _ in range(gold_NT.shape[1] - GIVEN):
        logits, state = model.extend(fed, state)
        fed = logits[:, -1:].argmax(-1)
        said.append(fed)
    return torch.cat(said, 1)


def train(parameters: ForcingParameters, seed: int, scheduled: ScheduledSampling | None) -> tuple[Gpt, int]:
    """A GPT of two layers, fed the right words or some of its own, and how many steps it took to be good enough."""
    config = GptConfig(vocab=NUMBERS, context=LENGTH, width=48, layers=2, heads=2, init_std=0.08)
    model = cast(Gpt, build_model(config, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(parameters.steps):
        gold = lines(BATCH, generator)
        inputs, targets = gold[:, :-1], gold[:, GIVEN:]
        fed = inputs if scheduled is None else scheduled.mixed(model, None, inputs, None, step=step)
        logits = model(fed)[:, GIVEN - 1 :]
        optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimiser.step()
        progress(f"training, {'own words' if scheduled else 'right words'}", step + 1, parameters.steps)
        right = logits if scheduled is None else model(inputs).detach()[:, GIVEN - 1 :]
        if float((right.argmax(-1) == targets).float().mean()) >= parameters.until:
            break
    return model.eval(), step + 1


def measured(model: Any, gold_NT: Tensor) -> tuple[PositionReport, int]:
    """Both accuracies by position, and words that differ although all before them were right."""
    right, by_gold, own = gold_NT[:, GIVEN:], forced(model, gold_NT), free(model, gold_NT)
    so_far = F.pad((own == right).long().cumprod(1), (1, 0), value=1)[:, :-1].bool()
    differ = int(((by_gold != own) & so_far).sum())
    return position_report(right.tolist(), by_gold.tolist(), own.tolist()), differ


def run(parameters: ForcingParameters, seed: int, quick: bool) -> LabOutcome:
    """A perfect model, one that is nearly right, and one that was fed its own words."""
    gold = lines(QUICK_TESTED if quick else TESTED, torch.Generator().manual_seed(seed + 1000))
    perfect, none = measured(Perfect(), gold)
    model, steps = train(parameters, seed, None)
    taught, differ = measured(model, gold)
    other, other_steps = train(parameters, seed, ScheduledSampling(decay="linear", scale=2.0 * steps, floor=0.5))
    sampled, _ = measured(other, gold)
    checks = [
        equals("perfect model: forced − free, all places", max(map(abs, perfect.gap)), 0.0),
        equals("perfect model: share right when free", perfect.free_accuracy, 1.0),
        at_most("words that differ before the first error of a line", differ + none, 0),
        at_most("first place: forced − free", abs(taught.gap[0]), 0.0),
        at_least("share right, forced", taught.forced_accuracy, parameters.until - 0.15),
        at_least("forced − free, last place", taught.gap[-1], 0.1),
        at_least("forced − free, all places", taught.forced_accuracy - taught.free_accuracy, 0.05),
        at_least("scheduled sampling: forced − free", sampled.forced_accuracy - sampled.free_accuracy, 0.05),
    ]  # fmt: skip
    row = _example(model, gold)
    taken = {"right words": steps, "scheduled sampling": other_steps, "perfect": 0}
    named = {"right words": taught, "scheduled sampling": sampled, "perfect": perfect}
    tables = [
        LabTable(
            title="share of right words",
            header=("trained with", "steps", "forced", "free", "gap", "first error, mean place"),
            rows=[
                (name, taken[name], each.forced_accuracy, each.free_accuracy, each.forced_accuracy - each.free_accuracy,
                 "none" if each.mean_divergence is None else each.mean_divergence + 1)
                for name, each in named.items()
            ],
        ),
        LabTable(
            title="one line: what is said at each place",
            header=("place", "right", "forced", "free"),
            rows=[(at + 1, *(int(part[row, at]) for part in _parts(model, gold))) for at in range(LENGTH - GIVEN)],
            note="Forced, an error leaves the next input right; free, it is read, and what follows is another line.",
        ),
    ]  # fmt: skip
    notes = [
        "Until its first error a model says the same both ways. What it scores under teacher forcing says little of"
        f" what it does alone. Scheduled sampling does not close the gap here ({sampled.forced_accuracy:.2f} forced,"
        f" {sampled.free_accuracy:.2f} free, against {taught.forced_accuracy:.2f} and {taught.free_accuracy:.2f}):"
        " behind a wrong word it asks for a word that the rule does not give (Huszár 2015)."
    ]
    return LabOutcome(tables=tables, figures=[_figure(named)], checks=checks, notes=notes)


def _parts(model: Gpt, gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return gold[:, GIVEN:], forced(model, gold), free(model, gold)


def _example(model: Gpt, gold: Tensor) -> int:
    """A line whose first error when free is early, but not at once, with the most errors behind it."""
    right, _, own = _parts(model, gold)
    wrong = own != right
    first = wrong.long().argmax(1)
    early = wrong.any(1) & (first >= 1) & (first <= 4)
    return int((wrong.sum(1) * early).argmax())


def _figure(named: dict[str, PositionReport]) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.8)
    at = range(GIVEN + 1, LENGTH + 1)
    for number, (name, each) in enumerate(named.items()):
        if name != "perfect":
            draw.line(left, at, [100 * x for x in each.forced], f"{name}: forced", number, markers=False)
            draw.line(left, at, [100 * x for x in each.free], f"{name}: free", number, markers=False, dashed=True)
        draw.line(right, at, [100 * x for x in each.gap], name, number)
    draw.reference(left, 100 / NUMBERS)
    left.text(LENGTH, 100 / NUMBERS - 1.5, "chance", ha="right", va="top", fontsize=8.5, color=draw.SOFT)
    left.set_ylim(0, 104)
    draw.style(left, "Right words by place", "place in the line", "share right (%)")
    left.legend(fontsize=8, labelcolor=draw.INK, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2),
                columnspacing=1.0, handlelength=1.6)  # fmt: skip
    draw.style(right, "Forced minus free", "place in the line", "gap (points)", legend="center right")
    taught = named["right words"]
    alt = (
        f"Left: share of right words by place: forced {taught.forced[-1]:.0%}, free {taught.free[-1]:.0%} at the last"
        " place for the model trained with right words. Right: the gap between both by place, 0 for a perfect model and"
        f" {100 * taught.gap[-1]:.0f} points at the end for the trained one."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="forcing",
    chapter=7,
    title="teacher forcing and free running",
    claim="Fed the right words or its own, a model says the same until its first error and falls behind from there; a"
    " perfect model has no gap, and feeding own words in training does not have to close it.",
    slides=(Slide("004", "p. 54", 624), Slide("004", "p. 55", 629), Slide("002", "p. 6")),
    parameters=ForcingParameters,
    run=run,
    mechanism=("forced", "free", "lines"),
    exercise=Exercise(
        function="free",
        task="Give the model the first GIVEN words of each line, then its own likeliest word at each step."
        " model.start() gives a state, model.extend(words, state) logits after each of the words, and the"
        " next state.",
        hints=(
            "At first GIVEN words are fed, then one at a time.",
            "The next word is the argmax of the last place's logits, (N, 1).",
            "Feed what was said, not what is right; put all that was said beside each other.",
        ),
        bugs=(
            PlantedBug(
                right="logits[:, -1:]",
                wrong="logits[:, :1]",
                fails="perfect model: share",
                hint="Whose logits say the next word?",
            ),
        ),
    ),
)
