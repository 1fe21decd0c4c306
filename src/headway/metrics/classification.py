"""How often a classifier is right: in all, by class, and which classes it takes for which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

Z = 1.959964  # of a normal distribution, within which 95 % lie
Counts = NDArray[np.int64]


def confusion(labels: Counts, predicted: Counts, classes: int) -> Counts:
    """How many of each class (rows) were taken for each (columns)."""
    counts = np.bincount(labels * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.int64)


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson 1927): it never leaves 0 to 1, and holds for few images too."""
    if not 0 <= right <= total or not total:
        raise DataError(f"{right} right of {total}: expected 0 <= right <= total and at least one")
    share, weight = right / total, Z * Z / total
    middle = (share + weight / 2) / (1 + weight)
    reach = math.sqrt(share * (1 - share) * weight + weight * weight / 4) / (1 + weight)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationReport:
    """Counts of true class against guessed class, and the summed loss in nats."""

    classes: tuple[str, ...]
    confusion: Counts
    nats: float
    unit: str = "images"  # what was classified

    @property
    def total(self) -> int:
        """How many were judged."""
        return int(self.confusion.sum())

    @property
    def right(self) -> int:
        """How many of them have their own class."""
        return int(self.confusion.trace())

    @property
    def accuracy(self) -> float:
        """The share that is right."""
        return self.right / self.total

    @property
    def loss(self) -> float:
        """Mean nats per image, or whatever was classified."""
        return self.nats / self.total

    @property
    def by_class(self) -> list[float | None]:
        """The share that is right of each class, None for one without any."""
        rows = zip(self.confusion.diagonal().tolist(), self.confusion.sum(1).tolist(), strict=True)
        return [right / total if total else None for right, total in rows]

    def mistakes(self, most: int) -> list[tuple[str, str, int]]:
        """The commonest: true class, guessed class, how often."""
        wrong = self.confusion - np.diag(self.confusion.diagonal())
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = [divmod(int(place), len(self.classes)) for place in order]
        return [(self.classes[a], self.classes[b], int(wrong[a, b])) for a, b in pairs if wrong[a, b]]

    def to_json(self) -> dict[str, Any]:
        """Values by name."""
        low, high = wilson(self.right, self.total)
        return {
            "accuracy": self.accuracy,
            "accuracy_low": low,
            "accuracy_high": high,
            self.unit: self.total,
            "loss": self.loss,
            "classes": list(self.classes),
            "accuracy_by_class": self.by_class,
        }
