"""The baselines of a text classifier, and what each word adds to an answer."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.tasks.text_classification import baseline
from headway.tasks.text_classification.baseline import baselines
from headway.tasks.text_classification.erasure import erased


class Texts:
    """A split in memory."""

    def __init__(self, texts, labels, seconds=None):
        self.texts, self.seconds, self.labels = texts, seconds, np.array(labels)
        self.lengths = np.array([len(text) for text in texts])
        self.second_lengths = None if seconds is None else np.array([len(text) for text in seconds])

    def tokens(self, number):
        return np.array(self.texts[number], np.int64)

    def second(self, number):
        return None if self.seconds is None else np.array(self.seconds[number], np.int64)


def answer(train, labels, text, classes, vocab):
    """Multinomial naive Bayes as the formula reads, in plain Python."""
    scores = []
    for label in range(classes):
        own = [each for each, other in zip(train, labels, strict=True) if other == label]
        counts = Counter(token for each in own for token in each)
        prior = math.log(len(own) / len(train)) if own else -math.inf
        total = sum(counts.values()) + vocab
        scores.append(prior + sum(math.log((counts[token] + 1) / total) for token in text))
    return scores


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_naive_bayes_is_the_formula(data):
    classes, vocab = 3, 5
    text = st.lists(st.integers(0, vocab - 1), min_size=1, max_size=6)
    row = st.tuples(text, st.integers(0, classes - 1))
    train, split = (data.draw(st.lists(row, min_size=1, max_size=8)) for _ in range(2))
    found = baselines(
        Texts([t for t, _ in train], [n for _, n in train]),
        Texts([t for t, _ in split], [n for _, n in split]),
        classes,
        vocab,
    )
    sure, tied = 0, 0
    for each, label in split:
        scores = answer([t for t, _ in train], [n for _, n in train], each, classes, vocab)
        best = [n for n, score in enumerate(scores) if score >= max(scores) - 1e-9]
        sure += best == [label]
        tied += len(best) > 1 and label in best  # rounding decides between equal scores
    assert sure <= round(found.naive_bayes * len(split)) <= sure + tied
    most = Counter(n for _, n in train)
    commonest = min(n for n in most if most[n] == max(most.values()))
    assert found.commonest == pytest.approx(np.mean([label == commonest for _, label in split]))


def test_both_texts_of_a_pair_count():
    pairs = Texts([[0], [0]] * 4, [0, 1] * 4, seconds=[[1], [2]] * 4)
    assert baselines(pairs, pairs, 2, 3).naive_bayes == 1
    assert baselines(Texts(pairs.texts, pairs.labels), pairs, 2, 3).naive_bayes == 0.5


def test_many_training_texts_are_sampled_evenly(monkeypatch):
    monkeypatch.setattr(baseline, "MOST_TOKENS", 100)
    texts = Texts([[n % 2] for n in range(1000)], [n % 2 for n in range(1000)])
    assert len(baseline._spaced(texts, 100)) == 100
    assert baselines(texts, texts, 2, 2).naive_bayes == 1


def test_a_table_of_counts_beyond_memory_is_not_made(monkeypatch):
    monkeypatch.setattr(baseline, "MOST_CELLS", 3)
    texts = Texts([[0]], [0])
    assert baselines(texts, texts, 2, 2) is None


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a fine film"], [("a", ("fine film",)), ("fine", ("a film",)), ("film", ("a fine",))]),
        (["a b", "c d"], [("a", ("b", "c d")), ("b", ("a", "c d")), ("c", ("a b", "d")), ("d", ("a b", "c"))]),
        (["好电"], [("好", ("电",)), ("电", ("好",))]),
        (["x", "a b"], [("a", ("x", "b")), ("b", ("x", "a"))]),
    ],
)
def test_each_word_is_left_out_once(texts, expected):
    assert erased(texts) == expected


@given(st.lists(st.text("ab ", min_size=1).filter(str.strip), min_size=1, max_size=2))
def test_what_remains_is_never_empty(texts):
    for word, remains in erased(texts):
        assert word.strip() == word != ""
        assert len(remains) == len(texts)
        assert all(each.strip() for each in remains)
        assert sum(len(each.replace(" ", "")) for each in remains) + len(word) == sum(
            len(each.replace(" ", "")) for each in texts
        )
