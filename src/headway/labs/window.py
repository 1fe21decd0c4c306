"""Longformer's pattern: a sliding window and one global token; what it costs, how far it reaches, and a needle.

With windows of radius w a query has at most 2w + 1 keys, so that the cost grows like the length n and not like n²; but
a stack of L layers reaches L·w words at most. A global token, which attends to all and is attended to by all, carries
what is further away (Beltagy et al. 2020, section 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, progress, within
from headway.models import Longformer, LongformerConfig, TextClassifier, TextClassifierConfig, build_model
from headway.nn.longformer_attention import Windows
from headway.ops import Global, Mask, Window, attend
from headway.plots import lab_figures as draw

LENGTHS = (512, 1024, 2048, 4096)  # of the counted operations
HEADS, FEATURES = 2, 16
LAYERS, REACH_WORDS = 3, 64  # of the model whose reach is measured
FILLERS, NO, YES, FIRST = 20, 20, 21, 22  # words of a document; the needle; the first token
VOCAB = 23
SHORTEST = 40  # words of the first documents in training
NEEDLE_FROM = 32  # words of a document before the needle, at least
TESTED, QUICK_TESTED = 2000, 1000
BATCH = 16
QUICK_STEPS, QUICK_WORDS = 150, 128


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowParameters:
    """The window and the documents."""

    radius: int = 8  # keys on each side of a query
    words: int = 256  # of a document with a needle
    steps: int = 250  # of training

    def __post_init__(self) -> None:
        if not 1 <= self.radius <= 10 or self.steps < 1 or not 64 <= self.words <= 1024:
            given = f"--radius {self.radius} --words {self.words} --steps {self.steps}"
            raise ConfigError(f"{given}: expected a radius of 1 to 10, 64 to 1,024 words, and at least 1 step")


def pattern(length: int, radius: int) -> Mask:
    """A window, and the first token global: it attends to all, and all attend to it."""
    return Window(radius) | Global.of([[0]], length)


def pairs(length: int, radius: int) -> int:
    """Pairs of query and key in the pattern, by hand: the band, row and column of the global token, less what is both.

    n(2w+1) − w(w+1) pairs are in the band, 2n − 1 in row and column, 2w + 1 in both.
    """
    return length * (2 * radius + 1) - radius * (radius + 1) + 2 * length - 1 - (2 * radius + 1)


def dilated_difference(length: int = 24, left: int = 2, right: int = 1, dilation: int = 3) -> int:
    """Pairs of a dilated window with other reaches to both sides that are not those of its definition."""
    seen = Window(left, right, dilation).dense(length, length).reshape(length, length)
    steps = {dilation * n for n in range(-left, right + 1)}
    defined = torch.tensor([[j - i in steps for j in range(length)] for i in range(length)])
    return int((seen != defined).sum())


def operations(length: int, mask: Mask | None, kernel: str) -> int:
    """Operations of one attention of this length, counted by torch."""
    q, k, v = torch.randn(3, 1, HEADS, length, FEATURES)
    with FlopCounterMode(display=False) as counter:
        attend(q, k, v, mask=mask, kernel=kernel)
    return int(counter.get_total_flops())


def reach(radius: int, seed: int, *, global_first: bool) -> list[int]:
    """How far the words are that change the middle word's vector behind each of 1 … LAYERS layers, at most."""
    found = []
    for layers in range(1, LAYERS + 1):
        config = LongformerConfig(
            vocab=VOCAB, windows=Windows(radius=radius), context=REACH_WORDS, width=16, layers=layers, heads=2,
            inner=32, dropout=0.0, init_std=0.3,
        )  # fmt: skip
        model = cast(Longformer, build_model(config, seed=seed).double().eval())
        middle = REACH_WORDS // 2
        tokens = torch.randint(FILLERS, (1, REACH_WORDS), generator=torch.Generator().manual_seed(seed))
        marks = torch.zeros(1, REACH_WORDS, dtype=torch.bool)
        marks[0, 0] = global_first
        edited = tokens.repeat(REACH_WORDS, 1)  # row n has another word n; row 0 is as it was
        other = torch.arange(1, REACH_WORDS)
        edited[other, other] = (edited[other, other] + 1) % FILLERS
        with torch.no_grad():
            vectors = model(edited, global_BT=marks.expand(REACH_WORDS, -1))[:, middle]
        changed = ((vectors - vectors[0]).abs().amax(-1) > 0).nonzero()
        found.append(int((changed - middle).abs().max()))
    return found


def documents(count: int, words: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Documents (count, words) with one needle, yes or no, far from their first token; and their classes (count,)."""
    tokens = torch.randint(FILLERS, (count, words), generator=generator)
    labels = torch.randint(2, (count,), generator=generator)
    places = torch.randint(NEEDLE_FROM, words, (count,), generator=generator)
    tokens[:, 0] = FIRST
    tokens[torch.arange(count), places] = NO + labels
    return tokens, labels


def classifier(radius: int, words: int, global_tokens: int, seed: int) -> TextClassifier:
    """A Longformer of two layers that reads its first token, which is global or not."""
    encoder = LongformerConfig(
        vocab=VOCAB, windows=Windows(radius=radius), context=words, width=32, layers=2, heads=2, inner=64, dropout=0.0,
        init_std=0.1,
    )  # fmt: skip
    config = TextClassifierConfig(encoder=encoder, classes=2, global_tokens=global_tokens)
    return cast(TextClassifier, build_model(config, seed=seed))


def accuracy(radius: int, words: int, global_tokens: int, steps: int, tested: int, seed: int) -> float:
    """The share of new documents that a trained classifier gets right."""
    model = classifier(radius, words, global_tokens, seed)
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        # Short documents first: in a long one a needle has 1/n of the attention, and so little of the gradient.
        length = min(words, SHORTEST + round((words - SHORTEST) * step / (0.6 * steps)))
        tokens, labels = documents(BATCH, length, generator)
        optimiser.zero_grad()
        F.cross_entropy(model(tokens), labels).backward()
        optimiser.step()
        progress(f"training, {'a' if global_tokens else 'no'} global token", step + 1, steps)
    model.eval()
    right = 0
    with torch.no_grad():
        for _ in range(tested // 100):
            tokens, labels = documents(100, words, generator)
            right += int((model(tokens).argmax(-1) == labels).sum())
    return right / (tested // 100 * 100)


def run(parameters: WindowParameters, seed: int, quick: bool) -> LabOutcome:
    """Pairs and operations by length, reach by layer, and the needle."""
    radius = parameters.radius
    lengths = LENGTHS[:2] if quick else LENGTHS
    counted = {n: int(pattern(n, radius).dense(n, n).sum()) for n in lengths}
    banded = {n: operations(n, pattern(n, radius), "banded") for n in lengths}
    full = {n: operations(n, None, "reference") for n in lengths}
    q, k, v = torch.randn(3, 1, HEADS, 200, FEATURES, dtype=torch.float64)
    mask = pattern(200, radius)
    same = float(
        (attend(q, k, v, mask=mask, kernel="banded") - attend(q, k, v, mask=mask, kernel="reference")).abs().max()
    )
    alone, helped = (reach(radius, seed, global_first=on) for on in (False, True))
    farthest = REACH_WORDS // 2 - 1  # to the last word, and to the one behind the global token
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    tested = QUICK_TESTED if quick else TESTED
    words = min(QUICK_WORDS, parameters.words) if quick else parameters.words
    right = {count: accuracy(radius, words, count, steps, tested, seed) for count in (1, 0)}
    last, before = lengths[-1], lengths[-2]
    spread = 0.07 if quick else 0.05
    checks = [
        at_most(
            "pairs in the mask = n(2w+1) − w(w+1) + 2n − 1 − (2w+1), largest difference",
            max(abs(counted[n] - pairs(n, radius)) for n in lengths), 0,
        ),
        equals("window of 2 before and 1 behind, 3 apart: pairs that are not those of its definition",
               dilated_difference(), 0),
        at_most("kernel banded = formula with the same mask, largest difference", same, 1e-12),
        at_most("window: exponent of the operations by length", math.log2(banded[last] / banded[before]), 1.15),
        equals("full attention: exponent of the operations by length", math.log2(full[last] / full[before]), 2.0, 0.01),
        *(
            equals(f"words that layer {n} reaches: {n}·w", alone[n - 1], min(n * radius, farthest))
            for n in range(1, LAYERS + 1)
        ),
        equals("words that layer 2 reaches with a global token: all", helped[1], farthest),
        at_least("needle found with a global token, share", right[1], 0.95),
        within("needle found without, share", right[0], 0.5 - spread, 0.5 + spread),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"one attention, radius {radius}, one global token",
            header=("words n", "pairs in the mask", "n²", "operations, banded", "operations, full"),
            rows=[(n, counted[n], n * n, banded[n], full[n]) for n in lengths],
            note="The kernel computes whole blocks, more than the pairs alone; both grow like n.",
        ),
        LabTable(
            title=f"how far a word's vector reaches, radius {radius}, of {farthest} words to the end",
            header=("layers", "window alone", "with a global token"),
            rows=[(n, alone[n - 1], helped[n - 1]) for n in range(1, LAYERS + 1)],
        ),
        LabTable(
            title=f"one needle in {words} words, two layers, {tested:,} new documents",
            header=("model", "right"),
            rows=[("window and a global first token", right[1]), ("window alone", right[0]), ("chance", 0.5)],
        ),
    ]
    notes = [
        f"Two layers of radius {radius} reach {2 * radius} words, so that the first token cannot know of a needle"
        f" {NEEDLE_FROM} words away: it guesses. One global token costs 2n more pairs, and two layers reach everything."
    ]
    figures = [_figure(radius, counted, banded, full, alone, helped)]
    return LabOutcome(tables=tables, figures=figures, checks=checks, notes=notes)


def _figure(
    radius: int,
    counted: dict[int, int],
    banded: dict[int, int],
    full: dict[int, int],
    alone: list[int],
    helped: list[int],
) -> LabFigure:
    figure, (left, middle, right) = draw.panels(3, height=3.3, widths=(1, 1.15, 1))
    small = min(radius, 3)
    left.imshow(pattern(24, small).dense(24, 24)[0, 0].float().numpy(), cmap=draw.HEATMAP, vmin=0, vmax=1.3)
    draw.style(left, f"Mask, radius {small}", "key (word)", "query (word)")
    left.grid(visible=False)
    at = [*counted]
    draw.line(middle, at, [full[n] / 1e6 for n in at], "full", 1)
    draw.line(middle, at, [banded[n] / 1e6 for n in at], "window + global", 0)
    middle.set_xscale("log", base=2)
    middle.set_yscale("log", base=2)
    draw.style(middle, "Cost", "words n", "operations (millions)", legend="upper left")
    layers = range(1, LAYERS + 1)
    draw.line(right, layers, alone, "window alone", 0)
    draw.line(right, layers, helped, "with a global token", 2)
    right.set_xticks([*layers])
    right.set_ylim(bottom=0)
    draw.style(right, "Reach", "layer", "words away, at most", legend="lower right")
    n = at[-1]
    alt = (
        "Three panels. A mask of 24 words: a band, and a row and a column of the first word. Operations by length: at"
        f" {n:,} words {full[n] / 1e6:,.0f} million for full attention, {banded[n] / 1e6:,.0f} million for the window."
        f" Reach by layer: {', '.join(map(str, alone))} words for the window alone, {', '.join(map(str, helped))} with"
        " a global token."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="window",
    chapter=10,
    title="Longformer's window and its global token",
    claim="With a window the cost grows like the length instead of its square, but L layers reach only L·w words, so"
    " that a fact further away is never found; one global token finds it for 2n more pairs.",
    slides=(Slide("004", "p. 61", 752),),
    parameters=WindowParameters,
    run=run,
    mechanism=("pattern", "classifier", "reach"),
    exercise=Exercise(
        function="headway.ops.masks:Window.allowed",
        cut=("near =", "near ="),
        task="Make `near` of `distance`, which is j − i with i as a position in the text, and `step`, the dilation:"
        " True from self.left steps before the query to self.ahead steps after it, both included.",
        hints=(
            "Keys before the query have a negative distance.",
            "Two comparisons, joined by &; a window of left = 2 and step 3 begins 6 keys before the query.",
            "near = (distance >= -self.left * step) & (distance <= self.ahead * step).",
        ),
        bugs=(
            PlantedBug(
                right="distance <= self.ahead * step",
                wrong="distance < self.ahead * step",
                fails="pairs in the mask",
                hint="How many keys does a window of radius w see?",
            ),
            PlantedBug(
                right="distance >= -self.left * step",
                wrong="distance > -self.left * step",
                fails="pairs in the mask",
                hint="How many keys does a window of radius w see?",
            ),
            PlantedBug(
                right="(distance <= self.ahead * step)",
                wrong="(distance <= self.left * step)",
                fails="window of 2 before and 1 behind",
                hint="Two sides, each with a reach of its own.",
            ),
        ),
    ),
)
