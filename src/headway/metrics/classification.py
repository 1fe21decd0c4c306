"""Classification metrics: accuracy with its interval, by class, F1, Matthews correlation, and the confusion matrix."""

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


def f1_by_class(confusion: Counts) -> list[float | None]:
    """2·TP / (2·TP + FP + FN) of each class; None for a class that is neither there nor predicted."""
    right, there, said = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    rows = zip(right.tolist(), (there + said).tolist(), strict=True)
    return [2 * hits / both if both else None for hits, both in rows]


def macro_f1(confusion: Counts) -> float:
    """The mean F1 of the classes that are there or predicted, as scikit-learn's f1_score(average="macro")."""
    found = [value for value in f1_by_class(confusion) if value is not None]
    return sum(found) / len(found)


def micro_f1(confusion: Counts) -> float:
    """F1 of all decisions together; where each input has one class, it is the accuracy."""
    return float(confusion.trace() / confusion.sum())


def matthews(confusion: Counts) -> float:
    """The correlation of true and predicted classes (Matthews 1975), for several classes by Gorodkin (2004, eq. 8).

    0 where all inputs are of one class or are taken for one, as in scikit-learn's matthews_corrcoef.
    """
    counts = confusion.astype(np.float64)
    total, there, said = counts.sum(), counts.sum(1), counts.sum(0)
    covariance = counts.trace() * total - there @ said
    variances = (total**2 - there @ there) * (total**2 - said @ said)
    return float(covariance / math.sqrt(variances)) if variances > 0 else 0.0


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
