"""Additions, column by column: long chains of carries take more ACT steps."""

from __future__ import annotations

import pytest
import torch

from headway.labs import pondering


def digits(*numbers: int):
    return torch.tensor([[int(digit) for digit in str(number).zfill(pondering.COLUMNS)] for number in numbers])


def test_sums_carries_and_how_far_one_has_to_look():
    found = pondering.sums(digits(12345, 99999, 1), digits(54321, 1, 9))
    assert found.digits.tolist() == digits(66666, 100000, 10).tolist()
    assert found.carries.tolist() == [[0] * 6, [1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 1, 0]]
    assert found.chains.tolist() == [[1, 1, 1, 1, 1, 0], [5, 4, 3, 2, 1, 0], [1, 1, 1, 1, 1, 0]]
    assert found.pairs[1].tolist() == [0, 90, 90, 90, 90, 91]


def test_the_built_in_sums_are_right():
    found = pondering.load_sums("test")
    assert found.pairs.shape == (1000, pondering.COLUMNS)
    assert found.carries.float().mean() > 0.1
    assert pondering.random_sums(500, torch.Generator().manual_seed(0)).chains.max() >= 4


def test_an_untrained_adder_ponders_all_columns():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = pondering.Adder().eval()
    data = pondering.load_sums("test").rows(torch.arange(20))
    right, taken = pondering.predict(model, data)
    assert right.shape == taken.shape == (20, pondering.COLUMNS)
    assert 1 <= int(taken.min()) <= int(taken.max()) <= pondering.CAP
    assert sum(count for _, count in pondering.steps_by_chain(taken, data).values()) == taken.numel()


@pytest.mark.slow  # trains for a minute
def test_carries_cost_more_steps():
    model = pondering.train(seed=0)
    for data in (pondering.load_sums("test"), pondering.random_sums(2000, torch.Generator().manual_seed(2))):
        right, taken = pondering.predict(model, data)
        assert right.float().mean() > 0.99
        with_carry, without = (taken[data.carries == given].float().mean() for given in (1, 0))
        assert with_carry > without + 0.2
        assert pondering.correlation(taken, data.chains) > 0.2
        means = [mean for mean, count in pondering.steps_by_chain(taken, data).values() if count >= 20]
        assert means == sorted(means)
        assert means[-1] > means[0] + 1
