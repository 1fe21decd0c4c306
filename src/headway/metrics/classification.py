"""Classification metrics: accuracy with its interval, by class, and the confusion matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

Z = 1.959964  # the 97.5 % quantile of the standard normal distribution
Counts = NDArray[np.int64]


def confusion_matrix(labels: Counts, predicted: Counts, classes: int) -> Counts:
    """Counts (classes, classes) by true class (rows) and predicted class (columns)."""
    counts = np.bincount(labels * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.int64)


def wilson_interval(right: int, total: int) -> tuple[float, float]:
    """The 95 % score interval of a proportion (Wilson 1927), valid for small samples too."""
    if not 0 <= right <= total or not total:
        raise DataError(f"{right} right of {total}: expected 0 <= right <= total and at least one")
    share, weight = right / total, Z * Z / total
    middle = (share + weight / 2) / (1 + weight)
    reach = math.sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationReport:
    """The confusion matrix and the summed loss in nats."""

    classes: tuple[str, ...]
    confusion: Counts
    nats: float
    unit: str = "images"  # what was classified

    @property
    def total(self) -> int:
        """The number of examples."""
        return int(self.confusion.sum())

    @property
    def right(self) -> int:
        """The number classified correctly."""
        return int(self.confusion.trace())

    @property
    def accuracy(self) -> float:
        """The share classified correctly."""
        return self.right / self.total

    @property
    def loss(self) -> float:
        """Mean nats per example."""
        return self.nats / self.total

    @property
    def by_class(self) -> list[float | None]:
        """Accuracy of each class, None for one without examples."""
        rows = zip(self.confusion.diagonal().tolist(), self.confusion.sum(1).tolist(), strict=True)
        return [right / total if total else None for right, total in rows]

    def mistakes(self, most: int) -> list[tuple[str, str, int]]:
        """The most frequent errors: true class, predicted class, count."""
        wrong = self.confusion - np.diag(self.confusion.diagonal())
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = [divmod(int(place), len(self.classes)) for place in order]
        return [(self.classes[a], self.classes[b], int(wrong[a, b])) for a, b in pairs if wrong[a, b]]

    def to_json(self) -> dict[str, Any]:
        """The object that `headway evaluate --json` prints."""
        low, high = wilson_interval(self.right, self.total)
        return {
            "accuracy": self.accuracy,
            "accuracy_low": low,
            "accuracy_high": high,
            self.unit: self.total,
            "loss": self.loss,
            "classes": list(self.classes),
            "accuracy_by_class": self.by_class,
        }
