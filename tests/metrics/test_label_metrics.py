"""F1, Matthews, calibration, correlations, errors: stored values of scikit-learn and SciPy (tools/metric_cases.py)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headway.errors import DataError
from headway.metrics.calibration import reliability
from headway.metrics.classification import confusion_matrix, f1_by_class, macro_f1, matthews, micro_f1
from headway.metrics.multilabel import MultiLabelCounts
from headway.metrics.regression import mean_absolute_error, pearson, ranks, root_mean_squared_error, spearman

DATA = Path(__file__).parent / "data"
near = {"abs": 1e-6, "rel": 0}


def cases(name: str, reference: str) -> list[dict]:
    found = json.loads((DATA / f"{name}.json").read_text())
    assert reference in found["reference"]
    assert len(found["cases"]) >= 200
    return found["cases"]


def test_single_labels_as_scikit_learn():
    for case in cases("single_label", "scikit-learn"):
        counted = confusion_matrix(np.asarray(case["labels"]), np.asarray(case["predicted"]), case["classes"])
        assert counted.trace() / counted.sum() == pytest.approx(case["accuracy"], **near)
        assert macro_f1(counted) == pytest.approx(case["macro_f1"], **near)
        assert micro_f1(counted) == pytest.approx(case["micro_f1"], **near)
        assert matthews(counted) == pytest.approx(case["matthews"], **near)


def test_several_labels_as_scikit_learn():
    for case in cases("multi_label", "scikit-learn"):
        labels, predicted = (np.asarray(case[name], bool) for name in ("labels", "predicted"))
        found = MultiLabelCounts.of(labels, predicted)
        for name in ("exact_match", "macro_f1", "micro_f1", "f1_by_label"):
            assert getattr(found, name) == pytest.approx(case[name], **near), name


def test_numbers_as_scipy_and_scikit_learn():
    for case in cases("regression", "SciPy"):
        labels, predicted = (np.asarray(case[name]) for name in ("labels", "predicted"))
        assert pearson(labels, predicted) == pytest.approx(case["pearson"], **near)
        assert spearman(labels, predicted) == pytest.approx(case["spearman"], **near)
        assert mean_absolute_error(labels, predicted) == pytest.approx(case["mae"], abs=1e-6)
        assert root_mean_squared_error(labels, predicted) == pytest.approx(case["rmse"], abs=1e-6)


def test_calibration_as_the_bins_of_scipy():
    for case in cases("calibration", "SciPy"):
        found = reliability(np.asarray(case["confidence"]), np.asarray(case["right"], bool), case["bins"])
        assert found.counts.tolist() == case["counts"]
        assert found.ece == pytest.approx(case["ece"], **near)


def test_bins_are_closed_on_the_right_and_certainty_is_in_the_last():
    found = reliability(np.asarray([0.0, 0.2, 0.200001, 1.0]), np.asarray([0, 1, 1, 1], bool), bins=5)
    assert found.counts.tolist() == [2, 1, 0, 0, 1]
    assert reliability(np.ones(3), np.ones(3, bool)).ece == 0
    assert reliability(np.full(4, 0.9), np.asarray([1, 1, 0, 0], bool)).ece == pytest.approx(0.4)
    with pytest.raises(DataError, match="no predictions"):
        reliability(np.zeros(0), np.zeros(0, bool))


def test_what_has_no_value():
    constant, line = np.ones(4), np.arange(4.0)
    assert pearson(constant, line) is None
    assert spearman(line, constant) is None
    assert ranks(np.asarray([5.0, 1.0, 5.0, 2.0])).tolist() == [3.5, 1, 3.5, 2]
    assert pearson(line * 1e-200, line * 1e200) == pytest.approx(1)
    alone = np.asarray([[3, 0], [0, 0]])
    assert f1_by_class(alone) == [1.0, None]
    assert matthews(alone) == 0.0
