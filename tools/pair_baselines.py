"""Baselines of a sentence encoder on `phrases`: TF-IDF, BM25 and IBM model 1. Needs scikit-learn.

Each gives the rank of the French sentence of every English one among those of its split, as `headway evaluate` does.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from headway.data.datasets import phrases
from headway.metrics.retrieval import retrieval_ranks

WORDS = r"\w+"
ITERATIONS = 5  # of expectation maximisation
K, B = 1.5, 0.75  # of BM25


def told(name: str, queries: np.ndarray, candidates: np.ndarray) -> str:
    """A line with the figures; row n of both belongs together."""
    right = np.stack([np.arange(len(queries))] * 2, 1)
    found, _ = retrieval_ranks(torch.from_numpy(queries), torch.from_numpy(candidates), right)
    return f"{name:32} recall@1 {found.recall(1):.3f}  recall@5 {found.recall(5):.3f}  MRR {found.mrr:.3f}"


def bm25(train: list[tuple[str, str]], english: list[str], french: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Words of the query, and their BM25 weights in each candidate (Robertson and Zaragoza 2009, section 3.4)."""
    counter = CountVectorizer(token_pattern=WORDS).fit([text for pair in train for text in pair])
    documents = np.asarray((counter.transform([target for _, target in train]) > 0).sum(0)).ravel()
    rarity = np.log(1 + (len(train) - documents + 0.5) / (documents + 0.5))
    counts = counter.transform(french).toarray().astype(float)
    lengths = counts.sum(1, keepdims=True)
    weights = rarity * counts * (K + 1) / (counts + K * (1 - B + B * lengths / lengths.mean()))
    return (counter.transform(english).toarray() > 0).astype(float), weights


class WordTranslation:
    """t(f|e), the probability of a French word for an English one: IBM model 1 (Brown et al. 1993, section 4.2)."""

    def __init__(self, train: list[tuple[str, str]]) -> None:
        sides = ([pair[n] for pair in train] for n in (0, 1))
        self.counters = [CountVectorizer(token_pattern=WORDS), CountVectorizer(token_pattern=WORDS)]
        counts = [counter.fit_transform(side) for counter, side in zip(self.counters, sides, strict=True)]
        rows = [[each.indices[each.indptr[n] : each.indptr[n + 1]] for n in range(each.shape[0])] for each in counts]
        self.table = np.full((counts[0].shape[1], counts[1].shape[1]), 1.0 / counts[1].shape[1])
        for _ in range(ITERATIONS):
            expected = np.zeros_like(self.table)
            for source, target in zip(*rows, strict=True):
                block = self.table[np.ix_(source, target)]
                expected[np.ix_(source, target)] += block / block.sum(0, keepdims=True)
            self.table = expected / np.maximum(expected.sum(1, keepdims=True), 1e-12)

    def vectors(self, english: list[str], french: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities of French words given an English sentence, and the mean over the words of a French one."""
        found = [
            (counter.transform(texts).toarray() > 0).astype(float)
            for counter, texts in zip(self.counters, (english, french), strict=True)
        ]
        source, target = (bag / np.maximum(bag.sum(1, keepdims=True), 1) for bag in found)
        return np.log(source @ self.table + 1e-9), target


def main() -> None:
    """Print a line for each split and baseline."""
    splits = {name: list(pairs) for name, pairs in phrases().splits.items()}
    train = splits["train"]
    every = [text for pair in train for text in pair]
    by_word = TfidfVectorizer(token_pattern=WORDS).fit(every)
    by_character = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit(every)
    translation = WordTranslation(train)
    for name in ("test", "unseen"):
        english, french = ([pair[n] for pair in splits[name]] for n in (0, 1))
        for what, vectors in (("TF-IDF of words", by_word), ("TF-IDF of characters", by_character)):
            print(told(f"{name}: {what}", *(vectors.transform(side).toarray() for side in (english, french))))
        print(told(f"{name}: BM25", *bm25(train, english, french)))
        print(told(f"{name}: IBM model 1", *translation.vectors(english, french)))


if __name__ == "__main__":
    main()
