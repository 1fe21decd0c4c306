from __future__ import annotations

import io
import math

import numpy as np
import pytest
from PIL import Image

from headway.metrics.world import (
    Regret,
    ReturnGap,
    ReturnStatistics,
    calibration_bins,
    calibration_error,
    errors_by_horizon,
    limited_by,
    rank_correlation,
    returns_by_step,
    total_variation,
)
from headway.plots.worlds import bars_frame, comparison_gif, comparison_strip, table_frame


def test_rank_correlation_is_spearman_s():
    assert rank_correlation([1, 2, 3, 4], [10, 20, 15, 99]) == pytest.approx(0.8)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 2], [1, 1, 5]) == pytest.approx(1)
    assert math.isnan(rank_correlation([1, 2, 3], [7, 7, 7]))


def test_chances_that_come_true_are_calibrated():
    random = np.random.default_rng(0)
    said = random.random(20_000)
    came = (random.random(20_000) < said).astype(float)
    assert calibration_error(calibration_bins(said, came)) < 0.02
    assert calibration_error(calibration_bins(said, 1 - came)) > 0.3
    assert sum(each.count for each in calibration_bins(said, came)) == 20_000


def test_the_error_of_a_horizon_counts_only_what_got_there():
    found = errors_by_horizon(
        np.array([[1.0, 3.0], [5.0, 9.0], [1, 1]]), np.ones((3, 2)), np.array([[1, 1], [0, 1], [0, 0]], bool)
    )
    assert [(each.k, each.error, each.count) for each in found] == [(1, 2.0, 2), (2, 9.0, 1)]


def test_total_variation_and_returns():
    assert total_variation(np.array([0.5, 0.5, 0]), np.array([0, 0.5, 0.5])) == pytest.approx(0.5)
    found = ReturnStatistics.of(np.array([1.0, 3.0]))
    assert (found.episodes, found.mean, found.error) == (2, 2.0, 1.0)


def test_the_gap_between_imagination_and_the_world():
    imagined, real = ReturnStatistics(100, 10.0, 0.3), ReturnStatistics(100, 9.0, 0.4)
    gap = ReturnGap.of(imagined, real)
    assert (gap.difference, gap.within) == (1.0, pytest.approx(1.96 * 0.5))
    assert not gap.covers_zero
    assert ReturnGap(-0.98, 0.98).covers_zero
    assert math.isnan(ReturnGap.of(imagined, ReturnStatistics(1, 9.0, math.nan)).within)


def test_where_all_episodes_are_alike_the_gap_may_be_a_hundredth():
    real = ReturnStatistics(100, 0.95, 0.0)
    assert ReturnGap.of(ReturnStatistics(100, 0.959, 0.0), real).covers_zero
    assert not ReturnGap.of(ReturnStatistics(100, 0.96, 0.0), real).covers_zero


def test_returns_up_to_a_step():
    found = returns_by_step(np.array([[1.0, 0], [2, 4]]), np.array([[0.0, 0], [1, 1]]), [1, 2])
    assert [(each.step, each.imagined, each.real) for each in found] == [(1, 0.5, 0.0), (2, 3.5, 1.0)]


def test_the_part_that_loses_most_is_named():
    parts = {"optimum": 0.75, "stationary": 0.74, "by_counts": 0.70, "by_model": 0.60, "policy": 0.59}
    rest = {"imagined": 0.7, "imagined_optimum": 0.71, "pairs": 4, "visited": 4, "fewest": 3}
    regret, real, gap = Regret(**parts, **rest), ReturnStatistics(9, 0.59, 0.1), ReturnGap(0.0, 0.1)
    assert regret.lost == pytest.approx({"time": 0.01, "exploration": 0.04, "model": 0.1, "policy": 0.01})
    assert limited_by(real, gap, 1.0, regret, 0.75) == "model"
    best = Regret(**{**parts, "by_counts": 0.74, "by_model": 0.74, "policy": 0.74}, **rest)
    assert limited_by(real, gap, 1.0, best, 0.75) is None
    real = ReturnStatistics(100, 200.0, 5.0)
    assert limited_by(real, ReturnGap(90.0, 20.0), 1.0, None, 500.0) == "model"
    assert limited_by(real, ReturnGap(-90.0, 20.0), 1.0, None, 500.0) == "model"  # too pessimistic is wrong as well
    assert limited_by(real, ReturnGap(90.0, 20.0), 0.5, None, 500.0) == "exploration"  # it cannot know better
    assert limited_by(real, ReturnGap(10.0, 20.0), 0.5, None, 500.0) == "exploration"
    assert limited_by(real, ReturnGap(10.0, 20.0), 1.0, None, 500.0) == "policy"
    assert limited_by(ReturnStatistics(100, 499.0, 0.0), gap, 1.0, None, 500.0) is None
    assert limited_by(real, gap, 0.5, None, None) is None


def test_frames_are_drawn_side_by_side():
    real = [bars_frame(np.array([n / 4, -n / 4]), np.ones(2)) for n in range(5)]
    dream = [table_frame(np.arange(12) % 4, 4) for _ in range(3)]
    with Image.open(io.BytesIO(comparison_gif(real, dream))) as moving:
        assert moving.format == "GIF"
        assert moving.n_frames >= 2
    with Image.open(io.BytesIO(comparison_strip(real, dream))) as still:
        assert still.size[0] > still.size[1]
