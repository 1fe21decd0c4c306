"""Adaptive computation time, token by token: weights, remainders, limits, gradients."""

from __future__ import annotations

import pytest
import torch

from headway.errors import ConfigError
from headway.nn.adaptive_computation import Adaptive, Fixed, Halting, Pondering, mix


def spent(p_NBT, *, threshold: float = 0.99, keep=None):
    """All steps of these probabilities -> the weights (N, B, T) and how far tokens came."""
    x = torch.zeros(*p_NBT.shape[1:], 2)
    tokens, weights = Pondering.begin(x, keep), []
    for step, p in enumerate(p_NBT):
        weight, tokens = tokens.spend(p, threshold, last=step + 1 == len(p_NBT))
        weights.append(weight)
    return torch.stack(weights), tokens


def drawn(steps: int = 6, seed: int = 0):
    return torch.rand(steps, 3, 50, generator=torch.Generator().manual_seed(seed))


def test_weights_sum_to_one_and_nothing_is_spent_after_halting():
    weights, tokens = spent(drawn())
    torch.testing.assert_close(weights.sum(0), torch.ones(3, 50))
    assert not tokens.running.any()
    assert len(tokens.steps.unique()) > 3
    later = torch.arange(6).view(-1, 1, 1) >= tokens.steps
    assert (weights[later] == 0).all()
    assert (weights[~later] > 0).all()


def test_the_remainder_is_what_the_last_step_spends():
    p = drawn()
    weights, tokens = spent(p)
    last = weights.gather(0, tokens.steps.unsqueeze(0) - 1)[0]
    torch.testing.assert_close(tokens.remainder, last)
    first = (p[0] > 0.99) | (p[0] + p[1] > 0.99)
    assert torch.equal(tokens.steps <= 2, first)
    torch.testing.assert_close(tokens.cost, tokens.steps + tokens.remainder)


def test_a_sure_token_takes_one_step_and_an_unsure_one_all_of_them():
    weights, tokens = spent(torch.ones(6, 1, 2))
    assert tokens.steps.tolist() == [[1, 1]]
    assert tokens.remainder.tolist() == [[1.0, 1.0]]
    weights, tokens = spent(torch.zeros(6, 1, 2))
    assert tokens.steps.tolist() == [[6, 6]]
    assert weights[:, 0, 0].tolist() == [0, 0, 0, 0, 0, 1]  # the cap spends what is left: here everything


def test_padding_takes_no_step():
    keep = torch.arange(50) < torch.tensor([[50], [7], [1]])
    weights, tokens = spent(drawn(), keep=keep)
    assert torch.equal(tokens.steps > 0, keep)
    assert torch.equal(tokens.cost > 0, keep)
    assert (weights[:, ~keep] == 0).all()


def test_only_the_remainder_carries_a_gradient():
    p = torch.tensor([[[0.5]], [[0.3]], [[0.9]], [[0.9]]], requires_grad=True)
    _, tokens = spent(p)
    assert tokens.steps.item() == 3
    tokens.cost.sum().backward()
    # R = 1 - p1 - p2: the third p decided to halt, but no small change of it changes anything
    assert p.grad.flatten().tolist() == [-1, -1, 0, 0]


@pytest.mark.parametrize(("mixture", "parts"), [("accumulated", [0.5, 0.5]), ("interpolated", [0.25, 0.5])])
def test_what_two_states_of_a_half_weigh(mixture, parts):
    states = torch.eye(2).view(2, 1, 1, 2)
    answer = torch.zeros(1, 1, 2)
    for state in states:
        answer = mix(answer, state, torch.full((1, 1), 0.5), mixture)
    assert answer[0, 0].tolist() == parts


@pytest.mark.parametrize("mixture", ["accumulated", "interpolated"])
def test_an_answer_is_frozen_without_weight(mixture):
    answer, state = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    assert torch.equal(mix(answer, state, torch.zeros(2, 3), mixture), answer)
    assert torch.equal(mix(torch.zeros_like(answer), state, torch.ones(2, 3), mixture), state)


def test_halting_begins_at_its_bias_and_keeps_float32():
    halting = Halting(4, Adaptive(bias=1.0)).bfloat16()
    p = halting(torch.zeros(1, 2, 4, dtype=torch.bfloat16))
    assert p.dtype == torch.float32
    torch.testing.assert_close(p, torch.ones(1, 2).sigmoid())


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5, 1.5])
def test_a_threshold_outside_0_and_1_is_refused(threshold):
    with pytest.raises(ConfigError, match=rf"halting.threshold={threshold}, allowed: above 0 and below 1"):
        Adaptive(threshold=threshold)


@pytest.mark.parametrize("kind", [Adaptive, Fixed])
@pytest.mark.parametrize("steps", [0, -1, 1.5])
def test_fewer_than_one_step_is_refused(kind, steps):
    with pytest.raises(ConfigError, match=rf"halting.steps={steps}, allowed: whole numbers from 1"):
        kind(steps=steps)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"halted": "gone"}, "halting.halted='gone', allowed: copied, transformed"),
        ({"mixture": "mean"}, "halting.mixture='mean', allowed: interpolated, accumulated"),
        ({"ponder": -0.1}, "halting.ponder=-0.1, allowed: 0 and above"),
    ],
)
def test_other_settings_are_refused_by_name(wrong, said):
    with pytest.raises(ConfigError, match=said):
        Adaptive(**wrong)
