"""CIDEr-D (Vedantam et al. 2015): TF-IDF weighted n-gram similarity of captions to human references.

Each n-gram weighs its count times log(images / images whose references have it). Of each order, a caption is compared
with a reference by the cosine of these weights, those of the caption clipped to the reference's; a Gaussian of the
difference in length damps it. As in the authors' code, length is counted in bigrams, and the mean over references and
orders is multiplied by ten.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

ORDERS = 4
SIGMA = 6.0  # of the Gaussian, in words
SCALE = 10.0
Ngram = tuple[str, ...]
Words = Sequence[str]


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A sentence as TF-IDF weights of its n-grams by order, their norms, and the number of bigrams."""

    weights: tuple[dict[Ngram, float], ...]
    norms: tuple[float, ...]
    length: int


def cider(captions: Sequence[Words], references: Sequence[Sequence[Words]]) -> float:
    """The mean over images of `cider_scores`."""
    return float(cider_scores(captions, references).mean())


def cider_scores(captions: Sequence[Words], references: Sequence[Sequence[Words]]) -> NDArray[np.float64]:
    """Captions in words, and the references of each image -> CIDEr-D of each (N,), 0 to 10.

    Document frequencies come from the references; with a single image all weights, and its score, are 0. Raises
    DataError if an image has no reference, or captions and images differ in number.
    """
    if len(captions) != len(references) or not captions:
        raise DataError(f"{len(captions)} captions for {len(references)} images; expected one for each, at least one")
    for number, given in enumerate(references, 1):
        if not given:
            raise DataError(f"image {number} has no reference, expected at least 1")
    counted = [[_ngrams(words) for words in those] for those in references]
    images = Counter(ngram for those in counted for ngram in set().union(*those))
    scores = []
    for words, those in zip(captions, counted, strict=True):
        caption = _weighted(_ngrams(words), images, len(references))
        alike = [_similarity(caption, _weighted(each, images, len(references))) for each in those]
        scores.append(SCALE * sum(alike) / len(alike))
    return np.asarray(scores, np.float64)


def _ngrams(words: Words) -> Counter[Ngram]:
    spans = ((start, start + order) for order in range(1, ORDERS + 1) for start in range(len(words) - order + 1))
    return Counter(tuple(words[start:end]) for start, end in spans)


def _weighted(counts: Counter[Ngram], images: Counter[Ngram], total: int) -> _Weighted:
    tables: tuple[dict[Ngram, float], ...] = tuple({} for _ in range(ORDERS))
    for ngram, count in counts.items():
        tables[len(ngram) - 1][ngram] = count * math.log(total / max(images[ngram], 1))
    norms = tuple(math.sqrt(sum(weight * weight for weight in table.values())) for table in tables)
    return _Weighted(tables, norms, sum(count for ngram, count in counts.items() if len(ngram) == 2))


def _similarity(caption: _Weighted, reference: _Weighted) -> float:
    """The mean cosine over orders, times the length penalty."""
    total = 0.0
    for mine, theirs, norm, other in zip(
        caption.weights, reference.weights, caption.norms, reference.norms, strict=True
    ):
        dot = sum(min(weight, theirs[ngram]) * theirs[ngram] for ngram, weight in mine.items() if ngram in theirs)
        total += dot / (norm * other) if norm and other else 0.0
    return total / ORDERS * math.exp(-((caption.length - reference.length) ** 2) / (2 * SIGMA**2))
