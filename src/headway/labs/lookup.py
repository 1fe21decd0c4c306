"""A dictionary made soft, and “cat opened its” by hand: word by word, as matrices, and by every kernel.

A dictionary returns the value of the one key that equals the query. Attention returns a mean of all values, weighted by
softmax(β·q·k): with β = 0 it is the mean of all, as β grows it becomes the dictionary. What the slides write for each
pair of words i, j and what they write with matrices is the same, and so is what each kernel of `headway.attend`
computes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from headway.config import positive
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
    holds,
)
from headway.ops import KERNELS, Causal, Mask, Window, attend, attention_weights, scores_of
from headway.ops.attend import checked
from headway.plots import lab_figures as draw

WORDS = ("cat", "opened", "its")
BETAS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
COMPILED = "flex"  # compiles for seconds on a CPU, and has no float64 there
LONG = 33  # tokens of the text on which kernels are compared
NOISE = 0.1  # of a query that equals no key


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupParameters:
    """The dictionary and the words' vectors."""

    entries: int = 6  # of the dictionary
    width: int = 4  # of a word's vector, d

    def __post_init__(self) -> None:
        positive("--width", self.width)
        if not 2 <= self.entries <= 64:
            raise ConfigError(f"--entries {self.entries}: expected 2 to 64")


def soft_lookup(query: Tensor, keys: Tensor, values: Tensor, beta: float) -> Tensor:
    """Σ_j softmax(β·q·k_j) v_j for queries (T, E), keys (S, E) and values (S, W) -> (T, W)."""
    return attend(query[None, None], keys[None, None], values[None, None], scale=beta)[0, 0]


def by_pairs(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """Attention as the slides write it for a pair of indices: score, softmax over j, weighted mean; (T, E) each."""
    outputs = []
    for i in range(len(q)):
        seen = range(i + 1) if causal else range(len(k))
        scores = [sum(float(a * b) for a, b in zip(q[i], k[j], strict=True)) / math.sqrt(q.shape[1]) for j in seen]
        exponentials = [math.exp(score) for score in scores]
        weights = [each / sum(exponentials) for each in exponentials]
        outputs.append(torch.stack([weight * v[j] for weight, j in zip(weights, seen, strict=True)]).sum(0))
    return torch.stack(outputs)


def by_matrix(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """softmax(QKᵀ/√d)V, by `headway.attend`; (T, E) each."""
    return attend(q[None, None], k[None, None], v[None, None], mask=Causal() if causal else None)[0, 0]


def by_kernels(q: Tensor, k: Tensor, v: Tensor) -> dict[str, float | str]:
    """The largest difference of each kernel from the formula, or why it does not support these inputs."""
    q, k, v = q[None, None], k[None, None], v[None, None]
    expected = attend(q, k, v, kernel="reference")
    found: dict[str, float | str] = {}
    for name, kernel in KERNELS.items():
        mask: Mask | None = Window(k.shape[2]) if name == "banded" else None  # a window that reaches all words
        reason = kernel.unsupported_reason(checked(q, k, v, mask, None, None, 0.0, None))
        if name == COMPILED or reason:
            found[name] = reason or "it compiles for seconds, and has no float64 on a CPU"
        else:
            found[name] = float((attend(q, k, v, mask=mask, kernel=name) - expected).abs().max())
    return found


def run(parameters: LookupParameters, seed: int, quick: bool) -> LabOutcome:
    """The soft dictionary by β; three words by pairs, matrices and kernels; the printed columns."""
    entries, width = parameters.entries, parameters.width
    generator = torch.Generator().manual_seed(seed)
    keys = torch.eye(entries, dtype=torch.float64)  # exact keys: no two are alike
    values = torch.randn(entries, 1, generator=generator, dtype=torch.float64)
    asked = torch.arange(entries)
    near = keys + NOISE * torch.randn(entries, entries, generator=generator, dtype=torch.float64)
    errors = [float((soft_lookup(keys[asked], keys, values, beta) - values[asked]).abs().max()) for beta in BETAS]
    nearest = float((soft_lookup(near, keys, values, BETAS[-1]) - values[asked]).abs().max())
    mean = float((soft_lookup(keys, keys, values, 0.0) - values.mean()).abs().max())

    words = torch.randn(len(WORDS), width, generator=generator, dtype=torch.float64)
    matrices = torch.randn(3, width, width, generator=generator, dtype=torch.float64) / math.sqrt(width)
    q, k, v = (words @ matrix for matrix in matrices)
    whole, past = (by_matrix(q, k, v, causal=causal) for causal in (False, True))
    pairs = max(float((by_pairs(q, k, v, causal=causal) - found).abs().max())
                for causal, found in ((False, whole), (True, past)))  # fmt: skip
    long = torch.randn(3, LONG, 8, generator=generator, dtype=torch.float64)
    kernels = by_kernels(*long)
    measured = {name: found for name, found in kernels.items() if not isinstance(found, str)}
    scores, weights = (
        scores_of(q[None, None], k[None, None])[0, 0],
        attention_weights(q[None, None], k[None, None])[0, 0],
    )
    printed = q.mT @ k.mT.mT  # Q = [q_1 q_2 q_3] as columns, then QKᵀ
    checks = [
        at_most("β = 0: difference from the mean of all values", mean, 1e-12),
        holds("the error of the lookup falls with every β", all(a > b for a, b in pairwise(errors))),
        at_most(f"β = {BETAS[-1]:g}: difference from the dictionary's value", errors[-1], 1e-11),
        at_most(f"β = {BETAS[-1]:g}: the same for queries near a key, where a dictionary has none", nearest, 1e-3),
        at_most("each pair of words by hand = matrices, with and without j ≤ i, largest difference", pairs, 1e-12),
        at_least("kernels compared with the formula", len(measured), 4),
        at_most("every kernel = the formula, largest difference", max(measured.values(), default=math.nan), 1e-10),
        equals("rows as words: QKᵀ has a score for each pair of words, its size", scores.numel(), len(WORDS) ** 2),
        equals("columns as printed: QKᵀ is d × d instead, its size", printed.numel(), width**2),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"a dictionary of size {entries}, asked for each of its keys",
            header=("β", "largest difference from the dictionary"),
            rows=[*zip(BETAS, errors, strict=True)],
        ),
        LabTable(
            title="cat opened its: scores q·k/√d and weights",
            header=("query", *(f"score {word}" for word in WORDS), *(f"weight {word}" for word in WORDS)),
            rows=[(word, *scores[i].tolist(), *weights[i].tolist()) for i, word in enumerate(WORDS)],
        ),
        LabTable(
            title="kernels of headway.attend on this machine, float64",
            header=("kernel", "largest difference from the formula"),
            rows=[
                (name, found if not isinstance(found, str) else f"not run: {found}") for name, found in kernels.items()
            ],
        ),
    ]
    notes = [
        "Attention is a dictionary that answers with a mixture, which is what gives it a gradient;"
        " with a large β (or long queries and keys) one value is left. With Q = [q_1 … q_T] as columns, as decks 000"
        " and"
        f" 001 print it, QKᵀ would be {width} × {width}: words must be rows."
    ]
    figure = _figure(scores, weights, v, whole, errors, width)
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _figure(scores: Tensor, weights: Tensor, v: Tensor, outputs: Tensor, errors: list[float], width: int) -> LabFigure:
    figure, (top_left, top_right, left, right) = draw.panels(2, rows=2, height=6.0)
    draw.heatmap(
        figure, top_left, scores, title="Scores q·k/√d", xlabel="key", ylabel="query", rows=WORDS, columns=WORDS,
        signed=True, label="score", write=".2f",
    )  # fmt: skip
    draw.heatmap(
        figure, top_right, weights, title="Weights: softmax of each row", xlabel="key", ylabel="query", rows=WORDS,
        columns=WORDS, label="weight", write=".2f", limit=1.0,
    )  # fmt: skip
    rows = [*(f"v {word}" for word in WORDS), *(f"y {word}" for word in WORDS)]
    both = torch.cat([v, outputs])
    few = width <= 8
    draw.heatmap(
        figure, left, both, title="Values v, and outputs y = Σ weight·v", xlabel="feature", ylabel="", rows=rows,
        columns=[str(n + 1) for n in range(width)] if few else (), signed=True, label="value",
        write=".2f" if few else "",
    )  # fmt: skip
    draw.line(right, BETAS, [max(error, 1e-17) for error in errors], "", 0)
    right.set_yscale("log")
    draw.style(right, "The soft dictionary becomes one", "sharpness β", "largest error of a value")
    alt = (
        "Four panels: the scores of cat, opened and its with each other; their weights, each row of which sums to one;"
        " the values and the outputs, which are weighted means of the values; and the error of a soft dictionary,"
        f" which falls from {errors[0]:.2g} at β = 0 to {errors[-1]:.1g} at β = {BETAS[-1]:g}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="lookup",
    chapter=5,
    title="a dictionary made soft",
    claim="Attention is a dictionary whose answer is a weighted mean of all values, which becomes the exact lookup as"
    " scores"
    " grow; written pair by pair, with matrices or as a fused kernel it is the same to rounding, if words are rows.",
    slides=(
        Slide("002", "p. 15–16"),
        Slide("003", "Self-Attention", 82),
        Slide("004", "p. 7–8, 14–20"),
        Slide("000", "Positional Encoding 39", 1268),
    ),
    parameters=LookupParameters,
    run=run,
    mechanism=("soft_lookup", "by_pairs", "by_matrix"),
    exercise=Exercise(
        function="by_pairs",
        task="For each query i: a score q_i·k_j/√d for each key j that it sees (j ≤ i if causal), a softmax over"
        " j, and the mean of the values under these weights. No matrix products: write it as the slides do.",
        hints=(
            "Three loops: over queries, over the keys that a query sees, over the features of a product.",
            "softmax: e^score over the sum of all e^score of this query.",
            "The output of query i is Σ_j weight_j · v[j], a vector; stack the outputs.",
        ),
        bugs=(
            PlantedBug(
                right="/ math.sqrt(q.shape[1])",
                wrong="/ q.shape[1]",
                fails="each pair of words",
                hint="What are the scores divided by?",
            ),
            PlantedBug(
                right="zip(q[i], k[j]",
                wrong="zip(q[j], k[i]",
                fails="each pair of words",
                hint="Whose query, whose key?",
            ),
        ),
    ),
)
