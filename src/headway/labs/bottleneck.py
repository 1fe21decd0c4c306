"""Digits in, the same digits out: through one vector, through one with the source reversed, or with attention.

An LSTM reads a row of digits and writes it again. Without attention all of it has to pass through the encoder's last
state, so that long rows fail. Reading the source from its end (Sutskever et al. 2014, section 3.3) puts its first
digits near to where they are needed, and more of the row gets through. With attention each output takes its own digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import GREEDY, sample
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most
from headway.models import EncoderInput, RnnSeq2Seq, RnnSeq2SeqConfig, build_model
from headway.nn import AlignmentConfig, RecurrentConfig
from headway.plots import lab_figures as draw

DIGITS, EOS, START = 10, 10, 11
HIDDEN, WIDTH = 32, 16
BATCH, TESTED = 64, 200
QUICK_STEPS, QUICK_LONGEST = 250, 6
KINDS = ("one vector", "one vector, source reversed", "attention")


@dataclass(frozen=True, slots=True, kw_only=True)
class BottleneckParameters:
    """The rows of digits and the training."""

    longest: int = 12  # digits of a row, from 1 on
    steps: int = 1000  # of training, each model

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        if not 4 <= self.longest <= 40:
            raise ConfigError(f"--longest {self.longest}: expected 4 to 40")


def rows(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Digits with EOS (B, L + 1), the decoder's inputs START, digits, and its targets digits, EOS."""
    digits = torch.randint(DIGITS, (count, length), generator=generator)
    end, start = torch.full((count, 1), EOS), torch.full((count, 1), START)
    source = torch.cat([digits, end], 1)
    return source, torch.cat([start, digits], 1), source


def attention(kind: str) -> AlignmentConfig | None:
    """What the decoder may see of the source beside its first state."""
    return AlignmentConfig(kind="multiplicative", width=HIDDEN) if kind == "attention" else None


def train(kind: str, longest: int, steps: int, seed: int) -> RnnSeq2Seq:
    """An LSTM of 32 units on each side, trained on rows of 1 to `longest` digits."""
    layer, attends = RecurrentConfig(hidden=HIDDEN, cell="lstm"), attention(kind)
    both_ways = RecurrentConfig(hidden=HIDDEN // 2, cell="lstm", bidirectional=True)  # as Bahdanau et al. 2015 read
    config = RnnSeq2SeqConfig(
        vocab=START + 1, width=WIDTH, encoder=both_ways if attends else layer, decoder=layer, attention=attends,
        reverse_source=kind == KINDS[1],
    )  # fmt: skip
    model = cast(RnnSeq2Seq, build_model(config, seed=seed))
    generator = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        length = int(torch.randint(1, longest + 1, (1,), generator=generator))
        source, inputs, targets = rows(BATCH, length, generator)
        return F.cross_entropy(model(source, inputs).flatten(0, 1), targets.flatten())

    fit(model.parameters(), loss, steps=steps, learning_rate=0.01, what=f"training, {kind}", clip=1.0)
    return model.eval()


def right_by_place(model: RnnSeq2Seq, length: int, generator: torch.Generator) -> Tensor:
    """The share of digits that are right at each place (L,), where the model reads its own output."""
    source, _, targets = rows(TESTED, length, generator)
    limits = SequenceLimits(start=START, stop=EOS, max_tokens=length + 2)
    said = torch.full((TESTED, length), -1)
    for row, found in enumerate(sample(model, limits, GREEDY, source=EncoderInput(source))):
        kept = found[:length]
        said[row, : len(kept)] = torch.tensor(kept, dtype=torch.long)
    return (said == targets[:, :length]).float().mean(0)


@torch.no_grad()
def alignment(model: RnnSeq2Seq, length: int, generator: torch.Generator) -> tuple[Tensor, list[int]]:
    """The weights (outputs, inputs) of one row of digits, and the digits."""
    source, inputs, _ = rows(1, length, generator)
    found = model.source_attention()
    assert found is not None
    kept: list[Tensor] = []
    hook = found.tap.register_forward_hook(lambda tap, given, out: kept.append(out))
    model(source, inputs)
    hook.remove()
    return kept[-1][0], source[0].tolist()


def run(parameters: BottleneckParameters, seed: int, quick: bool) -> LabOutcome:
    """Three models, right by length and by place."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    longest = min(QUICK_LONGEST, parameters.longest) if quick else parameters.longest
    lengths = sorted({1, 2, longest // 3, longest // 2, 3 * longest // 4, longest})
    models = {kind: train(kind, longest, steps, seed) for kind in KINDS}
    generator = torch.Generator().manual_seed(seed + 1000)
    places = {kind: {n: right_by_place(model, n, generator) for n in lengths} for kind, model in models.items()}
    by_length = {kind: [float(found[n].mean()) for n in lengths] for kind, found in places.items()}
    plain, turned = (places[kind][longest] for kind in KINDS[:2])
    quarter, middle = max(1, longest // 4), lengths.index(3 * longest // 4)
    gain = by_length[KINDS[1]][middle] - by_length[KINDS[0]][middle]
    first = float(turned[:quarter].mean() - plain[:quarter].mean())
    last = float(turned[-quarter:].mean() - plain[-quarter:].mean())
    checks = [
        at_least(f"attention: digits right, the least of all lengths to {longest}", min(by_length["attention"]),
                 0.9 if quick else 0.99),
        at_most(f"one vector: digits right at length {longest}", by_length[KINDS[0]][-1], 0.6 if quick else 0.5),
        at_least("one vector: digits right at length 1", by_length[KINDS[0]][0], 0.7 if quick else 0.95),
        at_least(f"one vector, source reversed: gain in digits right at length {lengths[middle]}", gain, 0.1),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"digits right by length, {steps} steps, rows of 1 to {longest} digits",
            header=("", *(f"{n} {'digit' if n == 1 else 'digits'}" for n in lengths)),
            rows=[(kind, *found) for kind, found in by_length.items()],
        ),
        LabTable(
            title=f"digits right by place in rows of {longest}",
            header=("", *(str(n + 1) for n in range(longest))),
            rows=[(kind, *found[longest].tolist()) for kind, found in places.items()],
        ),
    ]
    notes = [
        f"The model reads a row of digits and writes it again. {HIDDEN} numbers have to hold the whole row: the deck's"
        f" bottleneck. Reversing the source helps ({100 * gain:+.0f} points"
        f" at length {lengths[middle]}), but not by the first outputs, as is said: at {longest} digits their first"
        f" quarter changes by {100 * first:+.0f} points, the last by {100 * last:+.0f}."
        " With attention the state need not hold the row at all."
    ]
    shown = alignment(models["attention"], longest, generator) if models["attention"].attention else None
    figure = _figure(lengths, by_length, {kind: found[longest] for kind, found in places.items()}, shown)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _figure(
    lengths: list[int],
    by_length: dict[str, list[float]],
    by_place: dict[str, Tensor],
    shown: tuple[Tensor, list[int]] | None,
) -> LabFigure:
    figure, (left, middle, right) = draw.panels(3, height=3.7, widths=(1, 1, 1.15))
    longest = lengths[-1]
    for number, kind in enumerate(KINDS):
        draw.line(left, lengths, [100 * share for share in by_length[kind]], kind, number)
        draw.line(middle, range(1, longest + 1), 100 * by_place[kind], "", number)
    for axes in (left, middle):
        axes.set_ylim(0, 104)
    draw.style(left, "Right by length", "digits in the row", "% of digits right", legend="lower left")
    left.get_legend().get_texts()[1].set_text("one vector,\nsource reversed")
    draw.style(middle, f"Right by place, {longest} digits", "place in the row", "% of digits right")
    if shown is None:
        right.set_axis_off()
    else:
        weights, digits = shown
        names = [*map(str, digits[:-1]), "·"]  # the end of the row
        draw.heatmap(figure, right, weights, title="Where it attends", xlabel="digit read (·: end)",
                     ylabel="digit written", rows=names, columns=names, label="weight", limit=1.0)  # fmt: skip
    alt = (
        f"Left: digits right by length; attention keeps {by_length['attention'][-1]:.0%} at {longest}, one vector"
        f" falls to {by_length[KINDS[0]][-1]:.0%}, reversed to {by_length[KINDS[1]][-1]:.0%}. Middle: by place;"
        " with the source reversed more digits are right, the last ones above all. Right: weights, a diagonal."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="bottleneck",
    chapter=4,
    title="everything through one vector",
    claim="An encoder-decoder whose source passes through one vector loses long rows; reversing the source helps,"
    " though not by the first outputs, and attention removes the loss.",
    slides=(Slide("002", "p. 11–14"),),
    parameters=BottleneckParameters,
    run=run,
    mechanism=("attention",),
    exercise=Exercise(
        function="rows",
        task="The encoder reads the digits and EOS. The decoder is fed START and the digits, and has to write the"
        " digits and EOS.",
        hints=(
            "digits is torch.randint(DIGITS, (count, length), generator=generator); columns of EOS and START"
            " go beside it.",
            "What the decoder is fed is what it has to write, moved by one place.",
            "source = [digits, EOS], inputs = [START, digits], targets = source.",
        ),
        bugs=(
            PlantedBug(
                right="torch.cat([start, digits], 1)",
                wrong="source",
                fails="attention: digits right",
                hint="It is trained well and writes nonsense: what was it fed while it was trained?",
            ),
        ),
    ),
)
