"""How the next token is drawn: temperature, top-k, top-p and min-p on the same logits.

Temperature divides the logits; top-k keeps the k likeliest tokens, top-p the smallest set that holds p of the
probability (Holtzman et al. 2020, section 3.1), min-p what is at least p times as likely as the likeliest (Nguyen et
al. 2024). Computed by headway's own sampling, the one that `generate` uses.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from headway.config import positive
from headway.decoding.sampling import Sampling, allowed_tokens, choose
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, holds
from headway.plots import lab_figures as draw

WORDS = ("the", "a", "an", "this", "my", "some", "every", "no", "two", "that", "its", "zebra")
LOGITS = (4.0, 3.4, 2.2, 1.9, 1.2, 0.9, 0.4, 0.0, -0.5, -0.8, -1.5, -4.0)
TEMPERATURES = (0.1, 0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0)
QUICK_DRAWS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParameters:
    """The settings that are compared."""

    top_k: int = 6  # tokens that top-k keeps
    top_p: float = 0.9  # share of the probability that top-p keeps
    min_p: float = 0.05  # of the likeliest token's probability, that min-p asks for
    draws: int = 20_000  # tokens drawn for each setting

    def __post_init__(self) -> None:
        positive("--top-k", self.top_k)
        positive("--draws", self.draws)
        if not (0 < self.top_p < 1 and 0 < self.min_p < 1):
            raise ConfigError(f"--top-p {self.top_p} --min-p {self.min_p}: expected numbers between 0 and 1")


def distribution(logits_V: Tensor, sampling: Sampling) -> Tensor:
    """The probability of each token (V,) under a setting."""
    scaled = logits_V[None] / sampling.temperature
    return scaled.masked_fill(~allowed_tokens(scaled, sampling), -math.inf).softmax(-1)[0]


def draw_tokens(logits_V: Tensor, sampling: Sampling, count: int, generator: torch.Generator) -> Tensor:
    """How often each token is drawn, as shares (V,)."""
    uniform = torch.rand(count, generator=generator, dtype=torch.float64)
    drawn = choose(logits_V.expand(count, -1), sampling, uniform)
    return torch.bincount(drawn, minlength=len(logits_V)) / count


def entropy(probabilities: Tensor) -> float:
    """In nats."""
    return float(torch.special.entr(probabilities.double()).sum())


def run(parameters: SamplingParameters, seed: int, quick: bool) -> LabOutcome:
    """Each setting: which tokens stay, with which probability, and how often they are drawn."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.tensor(LOGITS, dtype=torch.float64)
    plain = distribution(logits, Sampling())
    settings = {
        "all": Sampling(),
        f"top-k {parameters.top_k}": Sampling(top_k=parameters.top_k),
        f"top-p {parameters.top_p:g}": Sampling(top_p=parameters.top_p),
        f"min-p {parameters.min_p:g}": Sampling(min_p=parameters.min_p),
        "temperature 0.5": Sampling(temperature=0.5),
        "temperature 2": Sampling(temperature=2.0),
    }
    made = {name: distribution(logits, setting) for name, setting in settings.items()}
    count = min(QUICK_DRAWS, parameters.draws) if quick else parameters.draws
    drawn = {name: draw_tokens(logits, setting, count, generator) for name, setting in settings.items()}
    off = max(float((drawn[name] - made[name]).abs().max()) for name in settings)
    by_temperature = [entropy(distribution(logits, Sampling(temperature=t))) for t in TEMPERATURES]
    rise = min(later - earlier for earlier, later in pairwise(by_temperature))
    cold = distribution(logits, Sampling(temperature=1e-3))
    greedy = int(choose(logits[None], Sampling(temperature=0.0), None)[0])
    kept_k, kept_p, kept_m = (made[name] > 0 for name in [*settings][1:4])
    mass = float(plain[kept_p].sum())
    smallest = float(plain[kept_p].min())
    least_kept, most_cut = float(plain[kept_m].min()), float(plain[~kept_m].max()) if (~kept_m).any() else 0.0
    threshold = parameters.min_p * float(plain.max())
    checks = [
        equals("temperature towards 0: probability of the likeliest token", float(cold[greedy]), 1.0, 1e-9),
        holds("temperature 0 takes the likeliest token", greedy == int(logits.argmax())),
        at_least("entropy: smallest rise from one temperature to the next, nats", rise, 1e-3),
        at_most("temperature 10,000: entropy below that of equal chances, nats",
                math.log(len(WORDS)) - entropy(distribution(logits, Sampling(temperature=1e4))), 1e-4),
        equals("top-k: tokens kept", int(kept_k.sum()), min(parameters.top_k, len(WORDS))),
        at_least("top-p: probability of what is kept", mass, parameters.top_p),
        at_most("top-p: the same without its least likely token", mass - smallest, parameters.top_p - 1e-9),
        at_least("min-p: least likely token kept, over its bound", least_kept / threshold, 1.0),
        at_most("min-p: likeliest token cut, over its bound", most_cut / threshold, 1.0 - 1e-9),
        at_most(f"shares of {count:,} drawn tokens against their probability, largest difference", off,
                4 * 0.5 / math.sqrt(count)),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="probability of each token",
            header=("token", *settings),
            rows=[(word, *(float(made[name][at]) for name in settings)) for at, word in enumerate(WORDS)],
        ),
        LabTable(
            title="what each setting leaves",
            header=("setting", "tokens", "entropy (nats)", "probability kept", "likeliest drawn"),
            rows=[
                (
                    name, int((made[name] > 0).sum()), entropy(made[name]), float(plain[made[name] > 0].sum()),
                    WORDS[int(drawn[name].argmax())],
                )
                for name in settings
            ],
        ),
    ]  # fmt: skip
    notes = [
        "A temperature changes the odds and cuts nothing; the others cut, each by another rule, and share out the rest."
    ]
    return LabOutcome(tables=tables, figures=[_figure(made, by_temperature)], checks=checks, notes=notes)


def _figure(made: dict[str, Tensor], by_temperature: list[float]) -> LabFigure:
    figure, (cells, curve) = draw.panels(2, height=3.8, widths=(2.2, 1))
    table = torch.stack([*made.values()])
    draw.heatmap(
        figure, cells, table, title="Probability of the next token", xlabel="token", rows=[*made], columns=WORDS,
        label="probability", write=".2f",
    )  # fmt: skip
    for text, probability in zip(cells.texts, table.flatten(), strict=True):
        text.set_fontsize(6.5)
        text.set_visible(bool(probability > 0))  # an empty cell is a token that cannot be drawn
    cells.tick_params(axis="x", labelrotation=60)
    draw.line(curve, TEMPERATURES, by_temperature, "", 0)
    draw.reference(curve, math.log(len(WORDS)), "equal chances")
    curve.set_xscale("log", base=2)
    curve.set_xticks([0.125, 0.5, 1, 4], ["⅛", "½", "1", "4"])
    draw.style(curve, "Entropy", "temperature", "entropy (nats)", legend="lower right")
    kept = Counter({name: int((each > 0).sum()) for name, each in made.items()})
    told = ", ".join(f"{name} {count}" for name, count in kept.items())
    alt = (
        f"Left: the probability of twelve tokens under six settings; tokens left: {told}. Right: entropy rises with the"
        f" temperature from {by_temperature[0]:.2f} to {by_temperature[-1]:.2f} nats, towards that of equal chances."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="sampling",
    chapter=3,
    title="temperature, top-k, top-p, min-p",
    claim="Temperature goes from the likeliest token to equal chances without cutting any; top-k keeps a number of"
    " tokens,"
    " top-p the fewest that hold a share of the probability, min-p those near the likeliest.",
    slides=(Slide("002", "p. 4–6"), Slide("004", "p. 49–54")),
    parameters=SamplingParameters,
    run=run,
    mechanism=("distribution", "draw_tokens"),
    exercise=Exercise(
        function="headway.decoding.sampling:allowed_tokens",
        task="top_k keeps the k likeliest tokens, top_p the smallest set of likeliest tokens that holds this"
        " share of what top_k left, min_p those with at least this share of the likeliest token's"
        " probability. _top_p_threshold gives the lowest probability in the set of top_p.",
        hints=(
            "Begin with all tokens whose logit is above −∞, and take away by &= for each of the three that is set.",
            "The k-th largest logit is topk(k).values[:, -1:]; for top_p, make probabilities of what is kept so far.",
            "min_p: the likeliest token's probability cancels, exp(logit − largest logit) ≥ min_p.",
        ),
        bugs=(
            PlantedBug(
                right="(logits_BV - logits_BV.amax(-1, keepdim=True)).exp()",
                wrong="logits_BV.softmax(-1)",
                fails="min-p: likeliest token cut",
                hint="A share of what? Hold each of the three against its sentence.",
            ),
            PlantedBug(
                right="values[:, -1:]",
                wrong="values[:, :1]",
                fails="top-k: tokens kept",
                hint="How many tokens are left by each of the three?",
            ),
        ),
    ),
)
