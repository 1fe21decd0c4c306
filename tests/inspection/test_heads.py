"""Figures of heads against sums done by hand, and induction heads in a model trained to need them."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headway
from headway.errors import ConfigError, ShapeError
from headway.inspection import ablate, head_effects, head_statistics
from headway.models import GptConfig, build_model
from headway.nn.positions import Rotary

VOCAB, LENGTH, PERIODS = 32, 32, (4, 16)


def by_hand(weights: Tensor, period: int, lengths: list[int]) -> list[list[float]]:
    found = []
    for head in range(weights.shape[1]):
        entropy, distance, previous, induction = [], [], [], []
        for row, length in enumerate(lengths):
            for i in range(length):
                w = weights[row, head, i].tolist()
                entropy.append(-sum(p * math.log(p) for p in w if p))
                distance.append(sum(p * abs(i - j) for j, p in enumerate(w)))
                if i >= 1:
                    previous.append(w[i - 1])
                if i >= period:
                    induction.append(w[i - period + 1])
        found.append([sum(each) / len(each) for each in (entropy, distance, previous, induction)])
    return found


@pytest.mark.parametrize("period", [1, 2, 5])
def test_figures_are_those_by_hand(period):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 2, 8, 8, generator=generator)
    weights = scores.masked_fill(torch.ones(8, 8).triu(1).bool(), -torch.inf).softmax(-1)
    lengths = [8, 6, 7]
    found = head_statistics(weights, period=period, lengths_B=torch.tensor(lengths))
    table = torch.stack([found.entropy, found.distance, found.previous, found.induction], 1)
    torch.testing.assert_close(table, torch.tensor(by_hand(weights, period, lengths)), atol=1e-5, rtol=0)
    assert head_statistics(weights).induction is None


def test_figures_of_heads_that_are_what_they_are_called():
    size = 12
    before = torch.zeros(size, size).index_put((torch.arange(1, size), torch.arange(size - 1)), torch.ones(size - 1))
    flat = torch.full((size, size), 1 / size)
    found = head_statistics(torch.stack([before, flat]).unsqueeze(0))
    assert found.previous.tolist() == pytest.approx([1, 1 / size])
    assert found.entropy.tolist() == pytest.approx([0, math.log(size)], abs=1e-5)


def test_what_is_no_self_attention_is_named():
    with pytest.raises(ShapeError, match=r"weights are \(1, 2, 3, 4\), expected \(B, h, T, T\)"):
        head_statistics(torch.zeros(1, 2, 3, 4))
    with pytest.raises(ConfigError, match="period=4, allowed for 4 tokens: 1 to 3"):
        head_statistics(torch.zeros(1, 2, 4, 4), period=4)


def repeated(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Texts (B, T + 1) that repeat themselves, each after a number of tokens of its own, where that shows (B, T)."""
    period = torch.randint(*PERIODS, (rows, 1), generator=generator)
    words = torch.rand(rows, VOCAB, generator=generator).argsort(1)[:, : PERIODS[1]]
    return words.gather(1, torch.arange(LENGTH + 1) % period), torch.arange(LENGTH) >= period


@pytest.fixture(scope="module")
def inductive() -> nn.Module:
    """Two layers that can tell what comes next only from what came next before."""
    config = GptConfig(vocab=VOCAB, context=64, width=32, layers=2, heads=2, inner=8, position=Rotary(), init_std=0.15)
    model, generator = build_model(config, seed=0), torch.Generator().manual_seed(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0, betas=(0.9, 0.98))
    for _ in range(420):
        texts, known = repeated(32, generator)
        loss = F.cross_entropy(model(texts[:, :-1])[known], texts[:, 1:][known])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.2
    return model.eval()


@torch.no_grad()
def test_induction_heads_are_found_and_do_the_work(inductive):
    period = 10
    generator = torch.Generator().manual_seed(1)
    texts = torch.rand(16, VOCAB, generator=generator).argsort(1)[:, :period].repeat(1, 2)
    with headway.capture(inductive) as seen:
        inductive(texts)
    first, second = (head_statistics(seen.weights[layer], period=period) for layer in (0, 1))
    assert first.previous.max() > 0.8  # a previous-token head,
    assert second.induction.max() > 0.7  # and an induction head above it
    assert first.induction.max() < 0.2

    def loss() -> float:
        logits = inductive(texts[:, :-1])[:, period:]
        return F.cross_entropy(logits.flatten(0, 1), texts[:, period + 1 :].flatten()).item()

    whole = loss()
    assert whole < 0.2
    effects = head_effects(inductive, loss)
    previous = int(first.previous.argmax())
    assert effects["layers.0.self"].argmax() == previous
    assert effects["layers.0.self"][previous] > 1  # without it the heads above find nothing
    with ablate(inductive, heads={"layers.1.self": [0, 1]}):
        assert loss() > whole + 1
