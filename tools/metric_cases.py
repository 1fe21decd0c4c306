"""Reference values of classification and regression metrics, from scikit-learn and SciPy: tests/metrics/data/*.json.

    pip install --target REFERENCE scikit-learn scipy
    PYTHONPATH=REFERENCE python -m tools.metric_cases

Every file names the version of its reference. Inputs are drawn with fixed seeds and rounded, and stored with the
values, so that the tests need neither package.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "tests" / "metrics" / "data"
CASES = 200
DIGITS = 4  # of drawn numbers


def classes(random: np.random.Generator) -> dict[str, Any]:
    """Single labels: accuracy, F1, Matthews."""
    from sklearn import metrics

    count, size = int(random.integers(2, 40)), int(random.integers(2, 7))
    labels = random.integers(0, size, count)
    predicted = np.where(random.random(count) < random.random(), labels, random.integers(0, size, count))
    if random.random() < 0.1:
        predicted[:] = predicted[0]
    return {
        "classes": size,
        "labels": labels.tolist(),
        "predicted": predicted.tolist(),
        "accuracy": metrics.accuracy_score(labels, predicted),
        "macro_f1": metrics.f1_score(labels, predicted, average="macro", zero_division=0),
        "micro_f1": metrics.f1_score(labels, predicted, average="micro", zero_division=0),
        "matthews": metrics.matthews_corrcoef(labels, predicted),
    }


def several(random: np.random.Generator) -> dict[str, Any]:
    """Several labels a text: F1, exact match."""
    from sklearn import metrics

    count, size = int(random.integers(2, 25)), int(random.integers(2, 6))
    labels = (random.random((count, size)) < random.random()).astype(int)
    predicted = np.where(random.random((count, size)) < random.random(), labels, random.integers(0, 2, (count, size)))
    return {
        "labels": labels.tolist(),
        "predicted": predicted.tolist(),
        "exact_match": metrics.accuracy_score(labels, predicted),
        "macro_f1": metrics.f1_score(labels, predicted, average="macro", zero_division=0),
        "micro_f1": metrics.f1_score(labels, predicted, average="micro", zero_division=0),
        "f1_by_label": metrics.f1_score(labels, predicted, average=None, zero_division=0).tolist(),
    }


def numbers(random: np.random.Generator) -> dict[str, Any]:
    """Numbers: correlations, errors. Every other case has ties."""
    from scipy import stats
    from sklearn import metrics

    count = int(random.integers(3, 30))
    labels = (random.normal(size=count) * 10 ** random.uniform(-2, 3)).round(DIGITS)
    predicted = (labels * random.normal() + random.normal(size=count) * labels.std()).round(DIGITS)
    if random.random() < 0.5:
        labels, predicted = random.integers(0, 5, count).astype(float), predicted.round(0)
    labels[0] = labels[1] + 1  # neither is constant
    predicted[-1] = predicted[0] + 1
    return {
        "labels": labels.tolist(),
        "predicted": predicted.tolist(),
        "pearson": float(stats.pearsonr(labels, predicted).statistic),
        "spearman": float(stats.spearmanr(labels, predicted).statistic),
        "mae": metrics.mean_absolute_error(labels, predicted),
        "rmse": float(metrics.mean_squared_error(labels, predicted) ** 0.5),
    }


def confidences(random: np.random.Generator) -> dict[str, Any]:
    """Calibration: the error over bins of equal width, from scipy.stats.binned_statistic."""
    from scipy import stats

    count, bins = int(random.integers(1, 60)), int(random.choice([5, 10, 15]))
    sure = random.uniform(0, 1, count).round(DIGITS + 1)
    edges = np.linspace(0, 1, bins + 1)
    sure = np.where(np.abs(sure[:, None] - edges).min(1) < 1e-6, sure + 1e-4, sure)  # no edge: sides differ there
    right = random.random(count) < sure ** random.uniform(0.3, 3)
    means, shares, counts = (
        np.nan_to_num(stats.binned_statistic(sure, values, statistic, bins=bins, range=(0, 1)).statistic)
        for values, statistic in ((sure, "mean"), (right, "mean"), (sure, "count"))
    )
    return {
        "bins": bins,
        "confidence": sure.tolist(),
        "right": right.astype(int).tolist(),
        "counts": counts.astype(int).tolist(),
        "ece": float((counts * np.abs(means - shares)).sum() / count),
    }


def main() -> None:
    """Write the four files."""
    import scipy
    import sklearn

    sklearn_version, scipy_version = f"scikit-learn {sklearn.__version__}", f"SciPy {scipy.__version__}"
    kinds: list[tuple[str, str, Callable[[np.random.Generator], dict[str, Any]]]] = [
        ("single_label", sklearn_version, classes),
        ("multi_label", sklearn_version, several),
        ("regression", f"{scipy_version}, {sklearn_version}", numbers),
        ("calibration", scipy_version, confidences),
    ]
    for name, reference, draw in kinds:
        cases = [draw(np.random.default_rng([number, len(name)])) for number in range(CASES)]
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        (FOLDER / f"{name}.json").write_text(f'{{"reference": "{reference}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
