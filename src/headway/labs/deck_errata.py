"""The errata of decks 002 to 004, each error with a number of its own; those of 000 and 001 are in lab `deck`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn import AttentionConfig
from headway.ops import Causal, attend, sinusoids
from headway.presets import preset

BASE = 512  # width of the base model
BIT, VIT_21K, VIT_JFT = 87.54, 85.30, 88.55  # ImageNet accuracy in the table of deck 004, p. 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """A number of what is printed and of what is right; the words are in `headway.labs.slide_index.deck_errors`."""

    error: str  # "16b" is the second one of error 16
    number: str  # what is measured
    printed: float
    correct: float
    expected: float  # of the corrected form, from theory
    tolerance: float = 0.0


def later_errata(width: int, tokens: int, generator: torch.Generator) -> list[Erratum]:
    """Errors 16 to 20, for T tokens of d features; d is even."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x, rows = normal(tokens, width), normal(4096, width)
    query, key = normal(20_000, 64), normal(20_000, 64)
    texts, places = normal(500, tokens, width), normal(500, tokens, width)
    content = (texts @ texts.mT).square().mean()
    crossed = (texts @ places.mT + places @ texts.mT).square().mean()
    # Of Gaussian vectors, diagonal and rest:
    expected_cross = (4 + 2 * (tokens - 1)) / (width + 2 + tokens - 1)
    first = sinusoids(torch.tensor([1.0]), BASE)[0, 2]  # sin ω_1
    return [
        Erratum(error="16a", number="variance of a score, d = 64", printed=float((query * key).sum(-1).var()),
                correct=float(((query * key).sum(-1) / 8).var()), expected=1.0, tolerance=0.05),
        Erratum(error="16b", number="features of head 2 that head 1 changes", printed=float(_mixed(width, None)),
                correct=float(_mixed(width, normal(width, width))), expected=width / 2),
        Erratum(error="17", number="first feature at t = 1, d = 4", printed=math.sin(10000 ** (-2 / 4)),
                correct=float(sinusoids(torch.tensor([1.0]), 4)[0, 0]), expected=0.8415, tolerance=5e-5),
        Erratum(error="18", number="cross terms over content terms, mean squares", printed=0.0,
                correct=float(crossed / content), expected=expected_cross, tolerance=0.1),
        Erratum(error="19a", number="of 1,000 signals stretched twice: max-pooled features that stay",
                printed=1000.0, correct=float(_stay(lambda signals: signals.repeat_interleave(2, -1), generator)),
                expected=0.0),
        Erratum(error="19b", number="ω_1 with d_k = 64, d_model = 512", printed=10000 ** (-2 / 64),
                correct=math.asin(float(first)), expected=10000 ** (-2 / BASE), tolerance=1e-5),
        *_of_deck_004(x, rows),
    ]  # fmt: skip


def _of_deck_004(x: Tensor, rows: Tensor) -> list[Erratum]:
    tokens, width = x.shape
    layer = AttentionConfig(width=BASE, heads=8).build()
    trained = sum(parameter.numel() for parameter in layer.parameters()) - 4 * BASE**2 - 4 * BASE
    vector, empty = torch.randn(4096, BASE), torch.full((1,), -math.inf)
    with torch.no_grad():
        entries = float(layer.qkv(F.layer_norm(vector, (BASE,)))[:, :BASE].var())
    up, down = rows[:width], rows[width : 2 * width]
    odd = float(((x @ up).relu() @ down + (-x @ up).relu() @ down).abs().max() > 1e-3)
    halves = torch.cat([_attention(part, part) for part in x.chunk(2, -1)], -1)
    mates = [torch.cat([rows[:1], others]) for others in (rows[1:8], rows[8:15])]
    moved = {mode: _moved(mates, training=mode) for mode in (True, False)}
    return [
        Erratum(error="20a", number="width of transformer-base", printed=1024.0,
                correct=float(getattr(preset("transformer-base").config(), "width", math.nan)), expected=512.0),
        Erratum(error="20b", number="weights of W^Q in 8 heads, d = 512", printed=float(8 * BASE * BASE),
                correct=float(8 * nn.Linear(BASE, BASE // 8, bias=False).weight.numel()), expected=float(BASE * BASE)),
        Erratum(error="20c", number="trained numbers that are one for each pair of words", printed=float(tokens**2),
                correct=float(trained), expected=0.0),
        Erratum(error="20d", number="is f(−x) = −f(x) broken?", printed=0.0, correct=odd, expected=1.0),
        Erratum(error="20e", number="variance of a query's entry at the start",
                printed=1.0, correct=entries, expected=1 / 3, tolerance=0.03),
        Erratum(error="20f", number="is the softmax of −∞ alone a number?", printed=1.0,
                correct=float(torch.isfinite(empty.softmax(-1)).all()), expected=0.0),
        Erratum(error="20g", number="features of an output", printed=float(tokens),
                correct=float(_attention(x, x).shape[-1]), expected=float(width)),
        Erratum(error="20h", number="do two heads differ from one?", printed=0.0,
                correct=float((halves - _attention(x, x)).abs().max() > 1e-3), expected=1.0),
        Erratum(error="20i", number="change of a row by its batch mates", printed=moved[True],
                correct=moved[False], expected=0.0),
        Erratum(error="20j", number="pairs of words that are compared",
                printed=float(Causal().dense(tokens, tokens).sum()), correct=float((x @ x.T).numel()),
                expected=float(tokens**2)),
        Erratum(error="20k", number="points over BiT-L, pretrained on ImageNet-21k", printed=VIT_JFT - BIT,
                correct=VIT_21K - BIT, expected=-2.24, tolerance=1e-9),
    ]  # fmt: skip


def _attention(q: Tensor, kv: Tensor) -> Tensor:
    found: Tensor = attend(q[None, None], kv[None, None], kv[None, None])
    return found[0, 0]


def _mixed(width: int, matrix: Tensor | None) -> int:
    """How many features of the second of two heads change when the first head's output does, behind W^O if any."""
    joined = torch.zeros(width, dtype=torch.float64)
    moved = joined.clone()
    moved[: width // 2] = 1.0
    if matrix is not None:
        joined, moved = joined @ matrix, moved @ matrix
    return int(((moved - joined)[width // 2 :].abs() > 1e-12).sum())


def _stay(changed: Callable[[Tensor], Tensor], generator: torch.Generator) -> int:
    """How many of 1,000 circular signals keep the largest output of a convolution when they are changed."""
    signals, kernel = (torch.randn(count, 1, size, generator=generator) for count, size in ((1000, 32), (1, 5)))

    def feature(x: Tensor) -> Tensor:
        return F.conv1d(F.pad(x, (2, 2), mode="circular"), kernel).amax(-1)

    return int(torch.isclose(feature(changed(signals)), feature(signals)).sum())


def _moved(mates: list[Tensor], *, training: bool) -> float:
    """How far the first row's BatchNorm differs between two batches."""
    norm = nn.BatchNorm1d(mates[0].shape[1]).double().train(training)
    with torch.no_grad():
        first, second = (norm(each)[0] for each in mates)
    return float((first - second).abs().max())
