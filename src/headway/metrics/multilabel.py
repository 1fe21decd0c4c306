"""Metrics of several labels a text: F1 by label, macro and micro, and how often all labels are right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]  # (N, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiLabelCounts:
    """True positives, predicted and true labels, each (labels,), and how many of the texts have all labels right."""

    hits: NDArray[np.int64]
    predicted: NDArray[np.int64]
    there: NDArray[np.int64]
    exact: int
    texts: int

    @classmethod
    def of(cls, labels: Flags, predicted: Flags) -> MultiLabelCounts:
        """The counts of true and predicted labels, both (N, labels)."""
        return cls(
            hits=(labels & predicted).sum(0),
            predicted=predicted.sum(0),
            there=labels.sum(0),
            exact=int((labels == predicted).all(1).sum()),
            texts=len(labels),
        )

    @property
    def f1_by_label(self) -> list[float]:
        """2·TP / (2·TP + FP + FN) of each label; 0 for one that is neither there nor predicted, as scikit-learn."""
        rows = zip(self.hits.tolist(), (self.there + self.predicted).tolist(), strict=True)
        return [2 * hits / both if both else 0.0 for hits, both in rows]

    @property
    def macro_f1(self) -> float:
        """The mean F1 of all labels."""
        return float(np.mean(self.f1_by_label))

    @property
    def micro_f1(self) -> float:
        """F1 of all decisions together; 0 if no label is there or predicted."""
        both = int(self.there.sum() + self.predicted.sum())
        return 2 * int(self.hits.sum()) / both if both else 0.0

    @property
    def exact_match(self) -> float:
        """The share of texts whose labels are all right, and no others: scikit-learn's accuracy_score."""
        return self.exact / self.texts
