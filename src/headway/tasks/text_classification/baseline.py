"""What a classifier of texts has to be better than: the commonest class, and naive Bayes on the same tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.data.labelled_text import TextSplit

MOST_TOKENS = 1 << 24  # of the training texts that are counted, evenly spaced ones beyond: seconds
MOST_CELLS = 1 << 26  # classes × tokens of the table of counts, half a gigabyte


@dataclass(frozen=True, slots=True)
class Baselines:
    """Shares of a split that two simple classifiers of the training texts have right."""

    commonest: float  # of always answering the commonest class
    naive_bayes: float  # of multinomial naive Bayes over the tokens, with add-one smoothing


def baselines(train: TextSplit, split: TextSplit, classes: int, vocab: int) -> Baselines | None:
    """The baselines of a split with one class a text; None where the table of counts would be too large.

    Multinomial naive Bayes (McCallum and Nigam 1998) answers the class c with the largest
    log p(c) + sum over tokens t of log (count of t in c + 1) / (tokens in c + vocabulary).
    """
    if classes * vocab > MOST_CELLS:
        return None
    rows = _spaced(train, MOST_TOKENS)
    labels = np.asarray(train.labels)[rows]
    counts = np.ones((classes, vocab))
    for label, tokens in zip(labels, _tokens(train, rows), strict=True):
        counts[label] += np.bincount(tokens, minlength=vocab)
    texts = np.bincount(labels, minlength=classes)
    with np.errstate(divide="ignore"):  # a class without training texts is never answered
        prior = np.log(texts / texts.sum())
    table = np.log(counts / counts.sum(1, keepdims=True)).T.copy()  # (tokens, classes): a text's rows are read whole
    every = np.arange(len(split.labels))
    answers = np.array([int((prior + table[tokens].sum(0)).argmax()) for tokens in _tokens(split, every)])
    truth = np.asarray(split.labels)
    return Baselines(
        commonest=float((truth == texts.argmax()).mean()),
        naive_bayes=float((truth == answers).mean()),
    )


def _spaced(texts: TextSplit, most: int) -> NDArray[np.int64]:
    """All texts, or evenly spaced ones that have about `most` tokens together."""
    count, tokens = len(texts.labels), int(texts.lengths.sum())
    kept = count if tokens <= most else max(count * most // tokens, 1)
    return np.linspace(0, count - 1, kept).round().astype(np.int64)


def _tokens(texts: TextSplit, rows: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
    """The tokens of each text, of a pair those of both."""
    for row in rows.tolist():
        second = texts.second(row)
        yield texts.tokens(row) if second is None else np.concatenate([texts.tokens(row), second])
