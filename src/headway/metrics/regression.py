"""Regression metrics: mean squared error and its root, mean absolute error, and the coefficient of determination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionReport:
    """The errors of predicted numbers, in the unit of the numbers (`mse`: squared)."""

    count: int
    mse: float
    mae: float
    r2: float | None  # 1 - Σ(error²)/Σ((true - mean)²); None where all true numbers are the same

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt(self.mse))

    def to_json(self) -> dict[str, Any]:
        """Values for machines."""
        return {"rmse": self.rmse, "mae": self.mae, "r2": self.r2}


def regression_report(found: NDArray[np.float64], true: NDArray[np.float64]) -> RegressionReport:
    """The figures of numbers (N,) beside the true ones (N,). Raises DataError for none, or other shapes."""
    if found.shape != true.shape or found.ndim != 1 or not len(true):
        raise DataError(f"numbers {found.shape} and {true.shape}: expected as many of each, at least one")
    off = found.astype(np.float64) - true.astype(np.float64)
    spread = float(np.square(true - true.mean()).sum())
    r2 = 1.0 - float(np.square(off).sum()) / spread if spread > 0.0 else None
    return RegressionReport(count=len(true), mse=float(np.square(off).mean()), mae=float(np.abs(off).mean()), r2=r2)
