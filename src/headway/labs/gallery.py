"""Ways to write a position as numbers, from the slides' attempts to the sinusoids, each with its defect as a number.

The index itself outgrows the embedding; a fraction of the length means another place in every text; a bounded code
saturates; a sine takes the same value at other places, sine and cosine nearly so; many frequencies do not. And adding a
code is concatenating it with tied weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.errors import ConfigError, TooLongError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import (
    Lab,
    LabFigure,
    LabOutcome,
    LabTable,
    Slide,
    at_least,
    at_most,
    equals,
    holds,
    within,
)
from headway.nn import Fraction, Learned, RawIndex, Saturating, Sine, SineCosine, Sinusoidal
from headway.nn.positions import CausalInput, InputPositions, SinusoidalTensor2Tensor
from headway.plots import lab_figures as draw

PLACES = 512  # that are told apart
KINDS: dict[str, CausalInput | Fraction] = {
    "raw index": RawIndex(),
    "fraction": Fraction(),
    "tanh(t/10)": Saturating(),
    "sine": Sine(),
    "sine and cosine": SineCosine(),
    "sinusoids": Sinusoidal(),
}
DECK = {  # dimensions of cat opened its, d = 4, computed by hand
    "cat": (0.0, 1.0, 0.0, 1.0),
    "opened": (math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)),
    "its": (math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)),
}
THIRDS = tuple(10000.0 ** (-i / 3) for i in range(4))  # frequencies of d = 8 in the code of tensor2tensor
ROBOT, ROBOT_BASE = ("I", "am", "a", "robot"), 100.0  # the base of that figure's source
SHORT, LONG = 5, 50  # lengths of two texts


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryParameters:
    """The codes."""

    width: int = 64  # features of a code, d

    def __post_init__(self) -> None:
        if self.width < 8 or self.width % 2:
            raise ConfigError(f"--width {self.width}: expected an even number of 8 or more")


def codes(kind: CausalInput | Fraction, count: int, width: int) -> Tensor:
    """The codes of positions 0 … count − 1 as headway's models add them, (count, width) in float64."""
    return kind.codes(torch.arange(count, dtype=torch.float64), width, count).double()


def nearest(table: Tensor) -> tuple[float, int, int]:
    """The smallest distance between two rows, divided by √width, and which rows they are."""
    distances = torch.cdist(table, table, compute_mode="donot_use_mm_for_euclid_dist") / math.sqrt(table.shape[1])
    distances.fill_diagonal_(math.inf)
    at = int(distances.argmin())
    first, second = divmod(at, len(table))
    return float(distances.min()), first, second


def concat_and_add(x: Tensor, seed: int) -> float:
    """The largest difference between W(x + p) and a concatenation [W W][x; p], in headway's positions."""
    width = x.shape[-1]
    positions, count = torch.arange(x.shape[1]), x.shape[1]
    adds = InputPositions(Sinusoidal(), width, count)
    joins = InputPositions(Sinusoidal(concat=width), width, count)
    assert joins.mix is not None
    with torch.no_grad():
        matrix = torch.randn(width, width, generator=torch.Generator().manual_seed(seed)) / math.sqrt(width)
        joins.mix.weight.copy_(torch.cat([matrix, matrix], 1))
        joins.mix.bias.zero_()
        added = adds(x, positions, count, count) @ matrix.mT
        return float((joins(x, positions, count, count) - added).abs().max())


def longest_learned(context: int, width: int) -> int:
    """The longest text that a learned table of `context` places takes."""
    table = InputPositions(Learned(), width, context)
    longest = 0
    for count in range(1, context + 4):
        try:
            table(torch.zeros(1, count, width), torch.arange(count), count, count)
        except TooLongError:
            break
        longest = count
    return longest


def run(parameters: GalleryParameters, seed: int, quick: bool) -> LabOutcome:
    """The codes, their defects, and the tables of the slides."""
    width = parameters.width
    generator = torch.Generator().manual_seed(seed)
    tables = {name: codes(kind, PLACES, width) for name, kind in KINDS.items()}
    flat = {name: table[:, 0] for name, table in tables.items()}
    closest = {name: nearest(table) for name, table in tables.items()}
    steps = flat["tanh(t/10)"].diff()
    small = codes(Sinusoidal(), 3, 4)
    by_hand = torch.tensor([*DECK.values()], dtype=torch.float64)
    other = codes(SinusoidalTensor2Tensor(), 3, 8)[2]
    other_by_hand = torch.tensor([math.sin(2 * w) for w in THIRDS] + [math.cos(2 * w) for w in THIRDS])
    robot = codes(Sinusoidal(base=ROBOT_BASE), len(ROBOT), 4)
    sinusoids = tables["sinusoids"]
    apart = (sinusoids[:1] - sinusoids).norm(dim=-1)  # by distance from place 0
    elsewhere = (sinusoids[100:101] - sinusoids[100:]).norm(dim=-1)
    closer = int((apart[1:100].diff() < 0).sum())
    embedding = torch.randn(1, PLACES, width, generator=generator)
    raw = float(tables["raw index"][-1].norm() / embedding[0, -1].norm())
    fractions = [float(Fraction().codes(torch.tensor([2.0]), 2, count)[0, 0]) for count in (SHORT, LONG)]
    pair = tables["sine and cosine"]
    collision = float((pair[39] - pair[372]).norm() / math.sqrt(pair.shape[1]))
    checks = [
        at_least(f"raw index: size of the code of place {PLACES - 1} over that of an embedding", raw, 300.0),
        at_least(f"fraction: the code of place 2 in a text of {SHORT} words over that in one of {LONG}",
                 fractions[0] / fractions[1], 10.0),
        equals("tanh(t/10): step from place 30 to 31", float(steps[30]), 8.946e-4, 1e-6),
        at_most("tanh(t/10): step from place 60 to 61", float(steps[60]), 3e-6),
        at_most("sine: places 11 and 344 share a code, difference", float((flat["sine"][11] - flat["sine"][344]).abs()),
                1e-6),
        within("sine and cosine: distance / √features of the codes of places 39 and 372", collision, 1e-4, 0.01),
        at_least(f"sinusoids: least distance of {PLACES} codes", closest["sinusoids"][0] * math.sqrt(width), 1.0),
        at_most("sinusoids: size √(d/2) of every code, largest difference",
                float((sinusoids.norm(dim=-1) - math.sqrt(width / 2)).abs().max()), 1e-4),
        at_most("sinusoids: distance of two codes depends on that of the places, largest difference",
                float((apart[: len(elsewhere)] - elsewhere).abs().max()), 1e-4),
        at_least("“closer positions have closer patterns”: of the first 99 places, farther ones with a closer code",
                 closer, 1),
        at_most("cat opened its, d = 4, against sines and cosines by hand, largest difference",
                float((small - by_hand).abs().max()), 1e-6),
        at_most("another layout of that name (tensor2tensor), d = 8, place 2, by hand, largest difference",
                float((other - other_by_hand).abs().max()), 1e-6),
        at_most("concatenating with tied weights = adding, largest difference", concat_and_add(embedding[:, :64], seed),
                1e-4),
        equals("learned: longest text of a table of 50 places", longest_learned(50, 8), 50),
        holds("sinusoids have codes beyond any place", bool(torch.isfinite(codes(Sinusoidal(), 100_000, 4)[-1]).all())),
    ]  # fmt: skip
    shown = [
        LabTable(
            title=f"codes of {PLACES} places",
            header=("code", "features", "largest value", "nearest two places", "their distance / √features"),
            rows=[
                (
                    name,
                    table.shape[1],
                    float(table.abs().max()),
                    f"{closest[name][1]} and {closest[name][2]}",
                    closest[name][0],
                )
                for name, table in tables.items()
            ],
        ),
        LabTable(
            title="cat opened its, d = 4",
            header=("word", "t", "sin ω_0 t", "cos ω_0 t", "sin ω_1 t", "cos ω_1 t"),
            rows=[(word, t, *(round(value, 5) for value in small[t].tolist())) for t, word in enumerate(DECK)],
            note="ω_i = 10000^(−2i/d) with i from 0: decks 002 and 004 begin their vectors at ω_1.",
        ),
        LabTable(
            title=f"I am a robot, d = 4, base {ROBOT_BASE:g} as in the figure's source",
            header=("word", "t", "sin ω_0 t", "cos ω_0 t", "sin ω_1 t", "cos ω_1 t"),
            rows=[(word, t, *(round(value, 2) for value in robot[t].tolist())) for t, word in enumerate(ROBOT)],
        ),
    ]
    notes = [
        "The sinusoids solve magnitude and are defined at any length; that a model trained on short texts can read long"
        " ones does not follow (lab positions). “Closer positions have closer patterns” holds for neighbours only:"
        f" {closer} of the first 99 places have a code closer to place 0 than the place before them."
    ]
    figure = _figure(tables, closest, robot, width)
    return LabOutcome(tables=shown, figures=[figure], checks=checks, notes=notes)


def _figure(
    tables: dict[str, Tensor], closest: dict[str, tuple[float, int, int]], robot: Tensor, width: int
) -> LabFigure:
    figure, (curves, waves, words, bars) = draw.panels(2, rows=2, height=6.4)
    for number, name in enumerate(("tanh(t/10)", "sine", "fraction")):
        values = tables[name][:80, 0] if name != "fraction" else codes(Fraction(), 80, 2)[:, 0]
        draw.line(curves, range(80), values, name, number, markers=False)
    curves.set_ylim(-2.1, 1.1)
    draw.style(curves, "Codes of one number, 80 words", "position t", "value of the code", legend="lower right")
    draw.heatmap(
        figure, waves, tables["sinusoids"][:128], title="Sinusoids", xlabel="feature", ylabel="position t", signed=True,
        label="value",
    )  # fmt: skip
    draw.heatmap(
        figure, words, robot, title="I am a robot, d = 4", xlabel="feature", ylabel="", rows=ROBOT,
        columns=("sin ω₀t", "cos ω₀t", "sin ω₁t", "cos ω₁t"), signed=True, label="value", write=".2f", limit=1.0,
    )  # fmt: skip
    distances = [max(found[0], 1e-9) for found in closest.values()]
    bars.barh(range(len(distances)), distances, color=draw.BLUE, height=0.65)
    bars.set_yticks(range(len(distances)), [*closest])
    bars.invert_yaxis()
    bars.set_xscale("log")
    draw.style(bars, f"Can {PLACES} places be told apart?", "distance of the two nearest codes / √d", "")
    alt = (
        "Four panels: codes of one number, of which tanh saturates and a sine repeats; the sinusoids as a heat map,"
        f" {width} features by position; the matrix of I am a robot; and the distance of the two nearest of"
        f" {PLACES} codes, {closest['tanh(t/10)'][0]:.0e} for tanh, {closest['sine'][0]:.0e} for a sine,"
        f" {closest['sinusoids'][0]:.2f} for sinusoids."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="gallery",
    chapter=6,
    title="a gallery of position codes",
    claim="An index outgrows the word, a fraction depends on the length, a bounded code saturates and a sine repeats;"
    " sinusoids tell 512 places apart at constant size, though far places can have closer codes than near ones.",
    slides=(
        Slide("002", "p. 31–35"),
        Slide("003", "Positional Encoding", 221),
        Slide("004", "p. 22–30", 267),
        Slide("001", "Positional Encoding 48–49", 1595),
    ),
    parameters=GalleryParameters,
    run=run,
    mechanism=("codes", "concat_and_add", "longest_learned"),
    exercise=Exercise(
        function="headway.ops.positions:sinusoids",
        cut=("pair =", "waves ="),
        task="Make `waves`, the sines and the cosines (…, D/2) of t·base^(−2i/D) for i = 0 … D/2 − 1; of the"
        ' layout "tensor2tensor", of t·base^(−i/(D/2 − 1)).',
        hints=(
            "One frequency for each pair of features: torch.arange(width // 2, dtype=torch.float64).",
            "angles = positions · base^−exponent, with unsqueeze(-1) on the positions.",
            "exponent = 2 * pair / width; max(width // 2 − 1, 1) guards the other layout against 0.",
        ),
        bugs=(
            PlantedBug(
                right="2 * pair / width",
                wrong="pair / width",
                fails="cat opened its",
                hint="How fast does the second pair of d = 4 turn?",
            ),
            PlantedBug(
                right="max(width // 2 - 1, 1)",
                wrong="max(width // 2, 1)",
                fails="another layout",
                hint="There are two layouts of frequencies: what is the lowest one of each?",
            ),
            PlantedBug(
                right="angles.sin(), angles.cos()",
                wrong="angles.cos(), angles.sin()",
                fails="cat opened its",
                hint="What is the code of place 0?",
            ),
        ),
    ),
)
