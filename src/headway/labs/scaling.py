"""Softmax of q·k for ever longer keys: not divided, divided by √d_k, and divided by d_k.

The score of two vectors of d_k independent entries with mean 0 and variance 1 has variance d_k. Not divided, the
softmax of such scores is nearly one-hot, and its derivative, whose trace is Σ p(1 − p), nearly 0. Divided by √d_k
(Vaswani et al. 2017, section 3.2.1) neither depends on d_k; divided by d_k all weights become equal instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.errors import ConfigError
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
    within,
)
from headway.nn import AttentionConfig, LayerNorm
from headway.ops import attention_weights, scores_of
from headway.plots import lab_figures as draw

WIDTHS = (4, 16, 64, 256, 1024, 4096)
POWERS = {"not divided": 0.0, "divided by √d_k": 0.5, "divided by d_k": 1.0}
QUERIES, QUICK_QUERIES = 1024, 256
TRAINED_WIDTHS = (64, 512)  # of headway's own attention as it is initialised


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingParameters:
    """The softmax."""

    keys: int = 64  # that a query is compared with

    def __post_init__(self) -> None:
        if not 2 <= self.keys <= 1024:
            raise ConfigError(f"--keys {self.keys}: expected 2 to 1,024")


def weights(q: Tensor, k: Tensor, power: float) -> Tensor:
    """softmax(q·kᵀ / d_k^power) for q (T, E) and k (S, E) -> (T, S)."""
    return attention_weights(q[None, None], k[None, None], scale=q.shape[-1] ** -power)[0, 0]


def entropy(p: Tensor) -> float:
    """Mean of −Σ p ln p over the rows of (T, S), in nats."""
    return float(torch.special.entr(p).sum(-1).mean())


def jacobian_trace(p: Tensor) -> float:
    """Mean over the rows of Σ_j ∂p_j/∂s_j = Σ p_j(1 − p_j), the trace of the softmax's derivative."""
    return float((p * (1 - p)).sum(-1).mean())


def at_initialisation(width: int, generator: torch.Generator) -> float:
    """Variance of scaled scores of headway's self-attention, 8 heads, on 64 normalised vectors."""
    layer = AttentionConfig(width=width, heads=8).build()
    norm = LayerNorm().build(width)
    kept: list[Tensor] = []
    for tap in (layer.tap_q, layer.tap_k):
        tap.register_forward_hook(lambda tap, inputs, out: kept.append(out))
    with torch.no_grad():
        layer(norm(torch.randn(1, 64, width, generator=generator)))
    q, k = kept
    return float(scores_of(q, k).var())


def run(parameters: ScalingParameters, seed: int, quick: bool) -> LabOutcome:
    """Variance of the scores, entropy and derivative of their softmax, by d_k."""
    generator = torch.Generator().manual_seed(seed)
    queries, keys = QUICK_QUERIES if quick else QUERIES, parameters.keys
    variances: list[float] = []
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in POWERS}
    for width in WIDTHS:
        q = torch.randn(queries, width, generator=generator, dtype=torch.float64)
        k = torch.randn(keys, width, generator=generator, dtype=torch.float64)
        # Pairs of their own: scores that share a query or a key are not independent. The relative deviation of their
        # variance is √((2 + 6/d)/n), .013 and less here: the bound is at four of them.
        pairs = (64 if width <= 64 else 16) * queries
        one, other = torch.randn(2, pairs, width, generator=generator)
        variances.append(float((one * other).sum(-1).double().var()))
        for name, power in POWERS.items():
            p = weights(q, k, power)
            found[name].append((entropy(p), jacobian_trace(p)))
    most = math.log(keys)
    starts = {width: at_initialisation(width, generator) for width in TRAINED_WIDTHS}
    bare, scaled, tiny = (found[name] for name in POWERS)
    wrong = max(abs(variance / width - 1) for variance, width in zip(variances, WIDTHS, strict=True))
    checks = [
        at_most("variance of q·k over d_k, largest distance from 1", wrong, 0.1 if quick else 0.05),
        at_most(f"entropy at d_k = {WIDTHS[-1]:,}, not divided, nats (equal weights: {most:.3f})", bare[-1][0], 0.15),
        at_least(f"entropy at d_k = {WIDTHS[-1]:,}, divided by √d_k, over that of equal weights", scaled[-1][0] / most,
                 0.85),
        within("entropy divided by √d_k: that at the largest d_k over that at d_k = 16", scaled[-1][0] / scaled[1][0],
               0.93, 1.07),
        at_most(f"trace of the softmax's derivative at d_k = {WIDTHS[-1]:,}, not divided", bare[-1][1], 0.1),
        at_least("the same divided by √d_k", scaled[-1][1], 0.9),
        at_least("trace at the largest d_k: divided by √d_k over not divided", scaled[-1][1] / bare[-1][1], 10.0),
        equals("divided by d_k instead: entropy over that of equal weights", tiny[-1][0] / most, 1.0, 0.001),
        within("headway's attention as initialised, width 512: variance of its scores", starts[512], 0.09, 0.13),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"softmax over {keys} keys, entries of q and k with mean 0 and variance 1",
            header=("d_k", "variance of q·k", *(f"entropy (nats), {name}" for name in POWERS),
                    *(f"trace, {name}" for name in POWERS)),
            rows=[
                (width, variances[n], *(found[name][n][0] for name in POWERS), *(found[name][n][1] for name in POWERS))
                for n, width in enumerate(WIDTHS)
            ],
            note=f"Equal weights have entropy ln {keys} = {most:.3f} and trace {1 - 1 / keys:.3f}; one-hot weights 0."
            " The trace Σ p(1 − p) is that of the softmax's derivative: how much gradient it passes.",
        ),
        LabTable(
            title="headway's self-attention as it is initialised, 8 heads, normalised inputs",
            header=("width", "variance of q·k/√d_k"),
            rows=[*starts.items()],
            note="“Initialise queries and keys to mean 0, variance 1” (deck 004) is an assumption: it is the"
            " weights that are initialised. Here the projections make entries of variance 1/3, so scores of 1/9.",
        ),
    ]  # fmt: skip
    notes = [
        f"Not divided, at d_k = {WIDTHS[-1]:,} one key of {keys} gets nearly all the weight before anything is learned,"
        f" and the softmax passes {scaled[-1][1] / bare[-1][1]:.0f} times less gradient. √d_k is the standard deviation"
        " of the score; dividing by the variance d_k is too much: all weights are equal then."
    ]
    return LabOutcome(tables=tables, figures=[_figure(found, most)], checks=checks, notes=notes)


def _figure(found: dict[str, list[tuple[float, float]]], most: float) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.6)
    for number, (name, values) in enumerate(found.items()):
        draw.line(left, WIDTHS, [value[0] for value in values], name, number)
        draw.line(right, WIDTHS, [value[1] for value in values], name, number)
    draw.reference(left, most, "equal weights")
    for axes in (left, right):
        axes.set_xscale("log", base=4)
        axes.set_xticks(WIDTHS, [f"{width:,}" for width in WIDTHS])
        axes.set_ylim(bottom=0)
    draw.style(left, "Entropy of the weights", "d_k, entries of a key", "entropy (nats)", legend="center right")
    draw.style(right, "Derivative of the softmax", "d_k, entries of a key", "trace, Σ p(1 − p)", legend="center right")
    bare, scaled, _ = found.values()
    alt = (
        f"Two panels against d_k from {WIDTHS[0]} to {WIDTHS[-1]:,}. Not divided, the entropy of the weights falls from"
        f" {bare[0][0]:.2f} to {bare[-1][0]:.2f} nats and the trace of the derivative to {bare[-1][1]:.3f}; divided by"
        f" √d_k they stay at {scaled[-1][0]:.2f} and {scaled[-1][1]:.3f}; divided by d_k they rise to those of equal"
        " weights."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="scaling",
    chapter=5,
    title="why scores are divided by √d_k",
    claim="Scores of longer keys have variance d_k, so that without 1/√d_k the softmax is nearly one-hot and passes"
    " hardly any"
    " gradient; that queries and keys have mean 0 and variance 1 is an assumption, not an initialisation.",
    slides=(Slide("004", "p. 13", 135),),
    parameters=ScalingParameters,
    run=run,
    mechanism=("weights", "jacobian_trace"),
    exercise=Exercise(
        function="weights",
        task="softmax over the keys of q·k divided by d_k to some power: 0 is not divided, 1/2 is the paper's √d_k.",
        hints=(
            "d_k is the number of entries of a key, the last size of q.",
            "Scores are q @ k.mT, divided by d_k**power; each row sums to 1 behind the softmax.",
            "By headway's own function: attention_weights(q[None, None], k[None, None], scale=…)[0, 0].",
        ),
        bugs=(
            PlantedBug(
                right="** -power",
                wrong="** power",
                fails="entropy at d_k = 4,096, divided",
                hint="Divided, or multiplied?",
            ),
            PlantedBug(
                right="q.shape[-1]",
                wrong="q.shape[0]",
                fails="entropy at d_k = 4,096, divided",
                hint="Which size is d_k?",
            ),
        ),
    ),
)
