"""Calibration: whether predictions are right as often as their confidence says (Guo et al. 2017, section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

BINS = 15  # of equal width, as in Guo et al. (2017, section 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The predictions by their confidence, in bins ((m - 1)/M, m/M]: how many, how sure, how often right."""

    counts: NDArray[np.int64]
    confidence: NDArray[np.float64]  # the mean of each bin, 0 for an empty one
    accuracy: NDArray[np.float64]  # the share that is right, 0 for an empty one

    @property
    def ece(self) -> float:
        """The expected calibration error: |accuracy - confidence| of the bins, weighted by their counts (eq. 3)."""
        return float((self.counts * np.abs(self.accuracy - self.confidence)).sum() / self.counts.sum())


def reliability(confidence: NDArray[np.floating], right: NDArray[np.bool_], bins: int = BINS) -> Reliability:
    """Confidences (N,) from 0 to 1, and whether each was right (N,), in bins. Raises DataError for N = 0."""
    if not len(confidence):
        raise DataError("no predictions to calibrate, expected at least 1")
    exact = np.asarray(confidence, np.float64)
    steps = np.ceil(np.nan_to_num(exact) * bins).astype(np.int64)
    place = np.clip(steps - 1, 0, bins - 1)  # 0 itself is in the first bin
    counts = np.bincount(place, minlength=bins)
    filled = np.maximum(counts, 1)
    return Reliability(
        counts=counts,
        confidence=np.bincount(place, exact, minlength=bins) / filled,
        accuracy=np.bincount(place, np.asarray(right, np.float64), minlength=bins) / filled,
    )
