"""Two ways to put the distance of two words into attention: RoPE as turning hands, ALiBi as forgetting.

RoPE turns each pair of features of queries and keys by an angle proportional to the position; their product depends on
the distance alone. ALiBi subtracts m·(i − j) from the score; where the scores are equal, the weights are γ^(i−j) with
γ = e^−m, exactly the forgetting memory of the lab party. RoPE forgets nothing: its products rise and fall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals
from headway.ops import Alibi, Causal, alibi_slopes, attention_weights, rotary_angles, rotate
from headway.plots import lab_figures as draw

SHIFTS = (0, 1, 7, 20, 50)  # places by which a pair of words is moved
REACH = 40  # largest distance
SLOPES = tuple(2.0**-h for h in range(1, 9))  # of eight heads, from the paper


@dataclass(frozen=True, slots=True, kw_only=True)
class DialsParameters:
    """Heads and words."""

    width: int = 8  # features of a head, two for each dial
    words: int = 16  # T, of the text that is forgotten

    def __post_init__(self) -> None:
        if self.width < 4 or self.width % 2:
            raise ConfigError(f"--width {self.width}: expected an even number of 4 or more")
        if not 2 <= self.words <= 512:
            raise ConfigError(f"--words {self.words}: expected 2 to 512")


def turned(x: Tensor, positions: Tensor) -> Tensor:
    """x (E,) as it is at each of the positions (T,) -> (T, E), in float64."""
    cos, sin = rotary_angles(positions, x.shape[-1])
    rows = x.double().expand(1, 1, len(positions), -1)
    return rotate(rows, cos.double(), sin.double(), "interleaved")[0, 0]


def forgetting(words: int, heads: int) -> Tensor:
    """The weights (H, T) of the last of T words on all, where all scores are equal, under ALiBi."""
    q, k = torch.zeros(1, heads, 1, 4, dtype=torch.float64), torch.zeros(1, heads, words, 4, dtype=torch.float64)
    bias = Alibi(alibi_slopes(heads).double(), offset=words - 1)  # the query is the last word
    return attention_weights(q, k, mask=Causal(offset=words - 1), bias=bias)[0, :, 0]


def party(words: int, slope: float) -> Tensor:
    """γ^(T−i) / Σ γ^(T−i) with γ = e^−slope, guest by guest (T,)."""
    memory = torch.zeros(words, dtype=torch.float64)
    for guest in torch.eye(words, dtype=torch.float64):
        memory = math.exp(-slope) * memory + guest
    return memory / memory.sum()


def run(parameters: DialsParameters, seed: int, quick: bool) -> LabOutcome:
    """Products of turned queries and keys by distance, and the weights of ALiBi."""
    width, words = parameters.width, parameters.words
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, width, generator=generator, dtype=torch.float64)
    distances = torch.arange(REACH + 1)
    products = torch.stack([(turned(q, distances + shift) * turned(k, torch.tensor([shift]))).sum(-1)
                            for shift in SHIFTS])  # fmt: skip
    drift = float((products - products[0]).abs().max() / (q.norm() * k.norm()))
    norms = float((turned(q, distances).norm(dim=-1) / q.norm() - 1).abs().max())
    still = float((turned(q, torch.tensor([0]))[0] - q).abs().max())
    alike = (turned(q, distances) * turned(q, torch.tensor([0]))).sum(-1) / q.square().sum()
    rises = int((alike.diff() > 0).sum())
    slopes = alibi_slopes(8)
    weights = forgetting(words, 8)
    expected = torch.stack([party(words, slope) for slope in SLOPES])
    gammas = [math.exp(-slope) for slope in SLOPES]
    checks = [
        at_most("RoPE: the product of two words moved together by 50 places, largest change / sizes", drift, 1e-5),
        at_least("RoPE: the product changes with the distance, largest change / sizes",
                 float((products[0] - products[0, 0]).abs().max() / (q.norm() * k.norm())), 0.05),
        at_most("RoPE: turning keeps the size, largest relative difference", norms, 1e-6),
        at_most("RoPE: at position 0 nothing is turned, largest difference", still, 0.0),
        at_least("RoPE is no forgetting: of 40 steps away, times a word's product with itself rises", rises, 5),
        at_most("ALiBi: slopes of 8 heads are 1/2 … 1/256, largest difference",
                float((slopes - torch.tensor(SLOPES)).abs().max()), 0.0),
        at_most("ALiBi with equal scores = γ^(T−i)/Σ with γ = e^−m, largest difference",
                float((weights - expected).abs().max()), 1e-12),
        equals("ALiBi: weight of a word over that of the next one, first head: e^−½",
               float(weights[0, -2] / weights[0, -1]), math.exp(-0.5), 1e-12),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="RoPE: q·k by distance, for pairs that begin at other places",
            header=("distance", *(f"from place {shift}" for shift in SHIFTS)),
            rows=[(d, *products[:, d].tolist()) for d in (0, 1, 2, 5, 10, 20, 40)],
        ),
        LabTable(
            title="ALiBi: a slope is a forgetting",
            header=("head", "slope m", "γ = e^−m", "half-life in words", f"weight of the first of {words} words"),
            rows=[
                (h + 1, slope, gammas[h], math.log(2) / slope, float(weights[h, 0])) for h, slope in enumerate(SLOPES)
            ],
            note="Half-lives of 1.4 to 177 words, as though eight parties were remembered at once.",
        ),
    ]
    notes = [
        "Deck 001 lists ALiBi and RoPE under “forgetting”. ALiBi is: equal scores give exactly γ^(T−i). RoPE is not:"
        f" the product of a word with itself rises at {rises} of 40 steps away from it. (That far words count less on"
        " average, Su et al. 2021, section 3.4.3, is a bound over many frequencies, not a fading of each.)"
    ]
    figure = _figure(products, alike, weights, width, words)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _figure(products: Tensor, alike: Tensor, weights: Tensor, width: int, words: int) -> LabFigure:
    figure, (dials, middle, right) = draw.panels(3, height=3.5, widths=(1.15, 1, 1))
    unit = torch.zeros(width, dtype=torch.float64)
    unit[0::2] = 1.0
    shown, at = min(width // 2, 3), (0, 1, 2, 4, 8)
    hands = turned(unit, torch.tensor(at))
    for row in range(shown):
        for column in range(len(at)):
            x, y = (float(value) for value in hands[column, 2 * row : 2 * row + 2])
            centre = (2.6 * column, -2.6 * row)
            dials.add_patch(_circle(centre))
            dials.plot([centre[0], centre[0] + x], [centre[1], centre[1] + y], color=draw.BLUE, linewidth=2.2)
    draw.style(dials, "RoPE: hands that turn", "position of the word", "pair of features")
    dials.set_aspect("equal")
    dials.set_xlim(-1.4, 2.6 * (len(at) - 1) + 1.4)
    dials.set_ylim(-2.6 * (shown - 1) - 1.4, 1.4)
    dials.set_xticks([2.6 * n for n in range(len(at))], [str(t) for t in at])
    dials.set_yticks([-2.6 * n for n in range(shown)], [str(n + 1) for n in range(shown)])
    dials.grid(visible=False)
    distances = range(len(alike))
    draw.line(middle, distances, alike, "word with itself", 0, markers=False)
    scale = float(products.abs().max())
    draw.line(middle, distances, products[0] / scale, "q, k from place 0", 1, markers=False)
    draw.line(middle, distances, products[-1] / scale, f"the same from {SHIFTS[-1]}", 2, markers=False, dashed=True)
    middle.set_ylim(-1.9, 1.1)
    draw.style(middle, "RoPE: product by distance", "distance in words", "product / largest", legend="lower left")
    for number, head in enumerate((0, 2, 4, 7)):
        name = f"m = 1/{2 ** (head + 1)}"
        draw.line(right, range(1, words + 1), weights[head], name, number, markers=False)
    draw.style(right, "ALiBi: forgetting", "word (the last is the query)", "weight", legend="upper left")
    alt = (
        "Three panels. Dials: the first pair of features turns fastest, the later ones slowly. The product of turned"
        " queries and keys rises and falls with the distance and is the same wherever the pair begins. ALiBi's weights"
        f" over {words} words with equal scores: powers of e^−m, {float(weights[0, -1]):.2f} on the last word for slope"
        f" 1/2 and {float(weights[7, -1]):.3f} for 1/256."
    )
    return LabFigure(alt=alt, figure=figure)


def _circle(centre: tuple[float, float]):  # type: ignore[no-untyped-def]  # of matplotlib, which is imported late
    from matplotlib.patches import Circle

    return Circle(centre, 1.0, facecolor="white", edgecolor="#999999", linewidth=1.0)


LAB = Lab(
    name="dials",
    chapter=6,
    title="RoPE turns, ALiBi forgets",
    claim="RoPE makes the product of two words depend on their distance alone, but does not make it decay steadily;"
    " ALiBi with equal scores is the forgetting γ^(T−i) of the first chapter, exactly, with γ = e^−m and a slope m"
    " for each head.",
    slides=(
        Slide("001", "Positional Encoding 47", 1535),
        Slide("003", "RoPE", 319),
        Slide("004", "p. 61"),
    ),
    parameters=DialsParameters,
    run=run,
    mechanism=("turned", "forgetting"),
    exercise=Exercise(
        function="headway.ops.positions:rotate",
        cut=("turned =", "turned ="),
        task="a and b are the two features of each pair. Turn the vector (a, b) by the angle whose cosine and"
        " sine are given.",
        hints=(
            "A rotation of the plane is a matrix with four entries: two cosines, a sine and a negative one.",
            "(1, 0) becomes (cos, sin), and (0, 1) becomes (−sin, cos).",
            "turned = a * cos − b * sin, a * sin + b * cos.",
        ),
        bugs=(
            PlantedBug(
                right="a * sin + b * cos",
                wrong="a * sin - b * cos",
                fails="RoPE: at position 0",
                hint="What happens at an angle of 0?",
            ),
            PlantedBug(
                right="a * cos - b * sin",
                wrong="a * cos + b * sin",
                fails="RoPE: turning keeps the size",
                hint="Does the vector keep its length?",
            ),
        ),
    ),
)
