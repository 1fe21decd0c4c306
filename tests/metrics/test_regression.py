"""Regression metrics beside those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from headway.errors import DataError
from headway.metrics.regression import regression_report

sklearn = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("seed", range(20))
def test_the_figures_are_those_of_scikit_learn(seed):
    random = np.random.default_rng(seed)
    true = random.normal(random.normal() * 100, random.uniform(0.1, 50), random.integers(2, 200))
    found = true + random.normal(0, random.uniform(0.1, 20), len(true))
    report = regression_report(found, true)
    assert report.rmse == pytest.approx(sklearn.root_mean_squared_error(true, found), rel=1e-12)
    assert report.mae == pytest.approx(sklearn.mean_absolute_error(true, found), rel=1e-12)
    assert report.r2 == pytest.approx(sklearn.r2_score(true, found), rel=1e-9)


def test_one_value_has_no_variance():
    assert regression_report(np.ones(3), np.full(3, 2.0)).r2 is None
    with pytest.raises(DataError, match="at least one"):
        regression_report(np.zeros(0), np.zeros(0))
