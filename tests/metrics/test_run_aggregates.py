from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, trim_mean

from headway.metrics.run_aggregates import bootstrap, interquartile_mean, probability_of_improvement


def test_the_interquartile_mean_leaves_out_a_quarter_at_either_end():
    assert interquartile_mean([0, 1, 2, 100]) == pytest.approx(1.5)
    assert interquartile_mean([5]) == 5
    for count in (3, 7, 10, 12):  # a quarter is rounded down, as by scipy's trimmed mean, which rliable calls
        scores = np.random.default_rng(count).random(count)
        assert interquartile_mean(scores) == pytest.approx(trim_mean(scores, 0.25))


def test_the_probability_of_improvement_by_hand():
    assert probability_of_improvement([2, 3], [1, 2]) == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    assert probability_of_improvement([[1, 0]], [[0, 1]]) == 0.5  # one environment each way
    random = np.random.default_rng(0)
    ours, theirs = random.integers(9, size=12), random.integers(9, size=7)
    both = probability_of_improvement(ours, theirs), probability_of_improvement(theirs, ours)
    assert sum(both) == pytest.approx(1)
    assert both[0] == pytest.approx(mannwhitneyu(ours, theirs).statistic / (12 * 7))  # U, over all pairs
    with pytest.raises(ValueError, match="scores of 2 and 1 environments"):
        probability_of_improvement([[1, 2]], [1])


def test_intervals_cover_the_truth_as_often_as_they_say():
    random = np.random.default_rng(1)
    covered = 0
    for n in range(120):
        found = bootstrap(lambda x: float(x.mean()), random.normal(size=(20, 2)), draws=300, seed=n)
        covered += found.low <= 0 <= found.high
    assert 0.86 <= covered / 120 <= 0.99


def test_runs_are_drawn_within_their_environment():
    """Environments of quite different scores: mixing them would give wide intervals."""
    scores = np.stack([np.zeros(10), np.full(10, 100.0)], 1)
    found = bootstrap(lambda x: float(x.mean()), scores, draws=50)
    assert (found.value, found.low, found.high) == (50, 50, 50)
    assert bootstrap(interquartile_mean, [3.0], draws=5).low == 3
    with pytest.raises(ValueError, match=r"shape \(0, 1\)"):
        bootstrap(interquartile_mean, [])
