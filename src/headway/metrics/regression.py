"""Metrics of predicted numbers: correlations by value and by rank, errors in the numbers' own unit, and R²."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

Numbers = NDArray[np.float64]


def pearson(labels: Numbers, predicted: Numbers) -> float | None:
    """The linear correlation of two (N,); None where one of them is constant."""
    a, b = labels - labels.mean(), predicted - predicted.mean()
    # Scaled first: squares of very small or very large numbers would vanish or overflow.
    largest_a, largest_b = np.abs(a).max(), np.abs(b).max()
    if not largest_a or not largest_b:
        return None
    a, b = a / largest_a, b / largest_b
    return max(min(float(a @ b / math.sqrt((a @ a) * (b @ b))), 1.0), -1.0)


def ranks(values: Numbers) -> Numbers:
    """The rank of each value (N,) from 1; equal ones have the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def spearman(labels: Numbers, predicted: Numbers) -> float | None:
    """The correlation of the ranks (Spearman 1904); None where one of them is constant."""
    return pearson(ranks(labels), ranks(predicted))


def mean_absolute_error(labels: Numbers, predicted: Numbers) -> float:
    """The mean of |label - predicted|."""
    return float(np.abs(labels - predicted).mean())


def root_mean_squared_error(labels: Numbers, predicted: Numbers) -> float:
    """The root of the mean of (label - predicted)²."""
    return math.sqrt(float(((labels - predicted) ** 2).mean()))


def determination(labels: Numbers, predicted: Numbers) -> float | None:
    """R² = 1 - Σ(error²)/Σ((label - mean)²); None where all labels are the same."""
    spread = float(np.square(labels - labels.mean()).sum())
    return 1.0 - float(np.square(predicted - labels).sum()) / spread if spread > 0.0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionReport:
    """The errors of predicted numbers, in the unit of the numbers."""

    count: int
    rmse: float
    mae: float
    r2: float | None  # None where all true numbers are the same

    @property
    def mse(self) -> float:
        """The mean squared error."""
        return self.rmse**2

    def to_json(self) -> dict[str, Any]:
        """Values for machines."""
        return {"rmse": self.rmse, "mae": self.mae, "r2": self.r2}


def regression_report(found: Numbers, true: Numbers) -> RegressionReport:
    """The figures of numbers (N,) beside the true ones (N,). Raises DataError for none, or other shapes."""
    if found.shape != true.shape or found.ndim != 1 or not len(true):
        raise DataError(f"numbers {found.shape} and {true.shape}: expected equal shapes, at least one number")
    labels, predicted = true.astype(np.float64), found.astype(np.float64)
    return RegressionReport(
        count=len(true),
        rmse=root_mean_squared_error(labels, predicted),
        mae=mean_absolute_error(labels, predicted),
        r2=determination(labels, predicted),
    )
