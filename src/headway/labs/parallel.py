"""The fewest steps in which each state can be computed, recurrent and with attention, and the time they take.

State t of layer l of a recurrent network needs the state before it and the one below: step t + l − 1 at the earliest
(the numbers in deck 004's figure). With attention a layer needs the whole layer below and nothing of its own: step l.
The work of the same matrix, row by row and all rows at once, shows what this costs on a machine. What it saves in steps
attention pays in work, which grows with the square of the length.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals
from headway.nn import AttentionConfig, Recurrent, RecurrentConfig
from headway.plots import lab_figures as draw

STEPS, QUICK_STEPS = 1024, 256
WIDTH = 64
LENGTHS, QUICK_LENGTHS = (64, 256, 1024, 4096), (64, 256)
REPEATS = 7
Place = tuple[int, int]  # word and layer, from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelParameters:
    """The network of the deck's figure."""

    words: int = 8  # T
    layers: int = 2  # L

    def __post_init__(self) -> None:
        positive("--words", self.words)
        positive("--layers", self.layers)
        if self.words > 64 or self.layers > 16:
            raise ConfigError(f"--words {self.words} --layers {self.layers}: expected at most 64 and 16")


def recurrent_needs(place: Place, words: int) -> list[Place]:
    """Which states a recurrent state waits for."""
    word, layer = place
    return [each for each in ((word - 1, layer), (word, layer - 1)) if each[0] >= 1 and each[1] >= 1]


def attention_needs(place: Place, words: int) -> list[Place]:
    """Which states a word's output in a layer of attention waits for."""
    return [(word, place[1] - 1) for word in range(1, words + 1)] if place[1] > 1 else []


def least_steps(needs: Callable[[Place, int], list[Place]], words: int, layers: int) -> list[list[int]]:
    """The first step at which each state can be known, rows from the first layer: the longest way to it."""
    known: dict[Place, int] = {}
    for layer in range(1, layers + 1):
        for word in range(1, words + 1):
            known[word, layer] = 1 + max((known[each] for each in needs((word, layer), words)), default=0)
    return [[known[word, layer] for word in range(1, words + 1)] for layer in range(1, layers + 1)]


def row_by_row(x: Tensor, weights: Tensor) -> Tensor:
    """Each row times the matrix after the one before, as a recurrence has to: (T, D)."""
    return torch.stack([row @ weights for row in x])


def at_once(x: Tensor, weights: Tensor) -> Tensor:
    """All rows times the matrix: (T, D)."""
    return x @ weights


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of one call on this thread: the least of several, which other programs disturb least."""
    work()
    found = []
    for _ in range(REPEATS):
        started = time.thread_time()
        work()
        found.append(time.thread_time() - started)
    return min(found)


@torch.no_grad()
def run(parameters: ParallelParameters, seed: int, quick: bool) -> LabOutcome:
    """Steps counted, products timed."""
    words, layers = parameters.words, parameters.layers
    generator = torch.Generator().manual_seed(seed)
    steps = {
        "recurrent": least_steps(recurrent_needs, words, layers),
        "attention": least_steps(attention_needs, words, layers),
    }
    formula = [[word + layer - 1 for word in range(1, words + 1)] for layer in range(1, layers + 1)]
    wrong = sum(a != b for rows in zip(steps["recurrent"], formula, strict=True) for a, b in zip(*rows, strict=True))

    count = QUICK_STEPS if quick else STEPS
    x, weights = torch.randn(count, WIDTH, generator=generator), torch.randn(WIDTH, WIDTH, generator=generator)
    same = float((row_by_row(x, weights) - at_once(x, weights)).abs().max())
    slow, fast = seconds(lambda: row_by_row(x, weights)), seconds(lambda: at_once(x, weights))

    layer = Recurrent(WIDTH, RecurrentConfig(hidden=WIDTH, cell="gru")).eval()
    attention = AttentionConfig(width=WIDTH, heads=4).build().eval()
    times: dict[int, tuple[float, float]] = {}
    for length in QUICK_LENGTHS if quick else LENGTHS:
        text = torch.randn(1, length, WIDTH, generator=generator)
        start = layer.start(text, 1)
        times[length] = seconds(lambda: layer(text, start)), seconds(lambda: attention(text))  # noqa: B023
    checks = [
        equals(f"recurrent: steps for {words} words and {layers} layers, T + L − 1", steps["recurrent"][-1][-1],
               words + layers - 1),
        equals("recurrent: states whose step is not t + l − 1", wrong, 0),
        equals("attention: steps, L", max(max(row) for row in steps["attention"]), layers),
        at_most("row by row and at once compute the same, largest difference", same, 1e-3),
        at_least(f"{count:,} rows one after another over all at once: time for the same work", slow / fast, 3.0),
    ]  # fmt: skip
    tables = [
        *(
            LabTable(
                title=f"earliest step of each state, {name}",
                header=("layer", *(f"word {n + 1}" for n in range(words))),
                rows=[(number, *row) for number, row in reversed([*enumerate(rows, 1)])],
            )
            for name, rows in steps.items()
        ),
        LabTable(
            title=f"CPU milliseconds of one layer of {WIDTH} features, one thread",
            header=("words", "GRU", "self-attention"),
            rows=[(length, 1000 * a, 1000 * b) for length, (a, b) in times.items()],
            note="One thread does one thing after another: here counts the work (T·d² recurrent, T²·d with attention)"
            " and what each small step costs. With many cores the steps above are the limit.",
        ),
    ]
    notes = [
        f"The same products take {slow / fast:.1f} times as long one row after another. “Parallelizability solved”"
        " (deck 004) is true of steps: L, not T + L − 1. It is paid for in work, which grows with T²: four times as"
        " many words take the recurrent layer about four times as long, attention up to sixteen."
    ]
    figure = _figure(steps, times, slow / fast)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _figure(steps: dict[str, list[list[int]]], times: dict[int, tuple[float, float]], ratio: float) -> LabFigure:
    figure, (left, middle, right) = draw.panels(3, height=3.4, widths=(1.1, 1.1, 1))
    most = max(max(row) for row in steps["recurrent"])
    few = len(steps["recurrent"][0]) <= 12
    for axes, (name, rows) in zip((left, middle), steps.items(), strict=True):
        draw.heatmap(
            figure, axes, rows[::-1], title=f"Earliest step, {name}", xlabel="word", ylabel="layer",
            rows=[str(len(rows) - n) for n in range(len(rows))],
            columns=[str(n + 1) for n in range(len(rows[0]))] if few else (), write=".0f" if few else "",
            label="step", limit=float(most),
        )  # fmt: skip
    for number, name in enumerate(("GRU", "self-attention")):
        draw.line(right, [*times], [1000 * pair[number] for pair in times.values()], name, number)
    right.set_xscale("log", base=2)
    right.set_yscale("log")
    draw.style(right, "Time on one thread", "words", "CPU milliseconds", legend="upper left")
    alt = (
        f"Three panels. Earliest steps of a recurrent network: from 1 to {most}, one more for each word and layer. With"
        f" attention: {max(max(row) for row in steps['attention'])} steps, one for each layer. Time of one layer by the"
        f" number of words, both rising. The same rows one after another take {ratio:.0f} times as long as at once."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="parallel",
    chapter=4,
    title="how many steps one after another",
    claim="A recurrent network of L layers needs T + L − 1 steps one after another for T words and attention L, and the"
    " same work row by row takes several times as long as at once; attention pays with work that grows as T².",
    slides=(Slide("004", "p. 4, 19–20", 39), Slide("002", "p. 26")),
    parameters=ParallelParameters,
    run=run,
    mechanism=("recurrent_needs", "attention_needs", "at_once", "row_by_row"),
    exercise=Exercise(
        function="least_steps",
        task="needs((word, layer), words) lists the states that one waits for. A state is known one step after"
        " the last of them; one that waits for nothing is known at step 1.",
        hints=(
            "Go through the layers from the first, and through the words from the first: what is waited for"
            " is known then.",
            "A dict from (word, layer) to its step; max(…, default=0) for no needs.",
            "known[word, layer] = 1 + max((known[each] for each in needs((word, layer), words)), default=0).",
        ),
        bugs=(
            PlantedBug(
                right="1 + max(",
                wrong="max(",
                fails="recurrent: steps",
                hint="When is a state known that waits for one other?",
            ),
            PlantedBug(
                right="default=0",
                wrong="default=1",
                fails="recurrent: steps",
                hint="At which step is a state known that waits for nothing?",
            ),
        ),
    ),
)
