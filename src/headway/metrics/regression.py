"""Metrics of predicted numbers: correlations by value and by rank, and errors in the labels' own unit."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

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
