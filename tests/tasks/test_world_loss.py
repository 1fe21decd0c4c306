"""What the world model minimises."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("gymnasium")

from headway.models import build_model
from headway.tasks.training_task import Batch
from headway.tasks.world_model.world_loss import world_loss
from tests.worlds import LAKE


def batch(rewards: torch.Tensor) -> Batch:
    rows, steps = rewards.shape
    torch.manual_seed(0)
    states, ages = torch.randint(16, (rows, steps + 1, 1)), torch.arange(steps).expand(rows, -1)
    inputs = (states, torch.randint(4, rewards.shape), ages, torch.ones(rows, steps, dtype=torch.bool))
    return Batch(inputs, torch.stack([rewards, torch.zeros_like(rewards)], -1), rewards.numel())


def reward_loss(unit: float, bounds: tuple[float, float], rewards: torch.Tensor) -> float:
    """Of a model that predicts each of them by half a tenth of `unit` too high."""
    model = build_model(LAKE, seed=0)
    model.bounds.copy_(torch.tensor(bounds))
    with torch.no_grad():
        for part in model.outcome.parameters():
            part.zero_()
        model.outcome[-1].bias.copy_(torch.tensor([50.0, float(rewards[0, 0]) + 0.05 * unit, 0.0]))
        return float(world_loss(model, batch(rewards))[1])


def test_an_error_of_the_reward_counts_alike_in_any_unit():
    """Found on MiniGrid: the last reward of 0.1 to 0.955 was off by up to 0.13, which was a hundredth of the loss."""
    small = reward_loss(1.0, (0.0, 1.0), torch.full((2, 3), 1.0))
    large = reward_loss(100.0, (0.0, 100.0), torch.full((2, 3), 100.0))
    assert small == pytest.approx(6 * 0.25, rel=1e-4)  # six errors of half a unit
    assert large == pytest.approx(small, rel=1e-4)


def test_rewards_that_are_all_alike_have_a_unit_of_one():
    rewards = torch.full((2, 3), 1.0)
    assert reward_loss(1.0, (1.0, 1.0), rewards) == pytest.approx(6 * 0.05**2, rel=1e-3)
    nothing = float(torch.finfo().max)
    assert reward_loss(1.0, (-nothing, nothing), rewards) == pytest.approx(6 * 0.05**2, rel=1e-3)
