"""`needle`: two facts far apart decide the label, and nothing else does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from headway.data.synthetic.needle import CLASSES, COUNTS, PRICES, PURSES, ROUND, SENTENCE, WORDS, Needle, text
from headway.errors import DataError


def document(split: str, number: int, words: int = 1024) -> list[str]:
    held = Needle(split, words)
    return text(held.document(number, int(held.lengths[number]))).split()


@pytest.mark.parametrize("split", COUNTS)
def test_the_label_is_whether_the_purse_holds_the_price(split):
    labels = Needle(split, 1024).labels
    for number in range(40):
        words = document(split, number)
        cost = [PRICES.index(word) for word in words if word in PRICES]
        held = [PURSES.index(word) for word in words if word in PURSES]
        assert len(cost) == len(held) == 1
        assert cost != held
        assert CLASSES[labels[number]] == ("enough" if held > cost else "short")


def test_the_facts_are_about_half_a_document_apart_or_more_and_far_from_its_beginning():
    firsts = Counter()
    for number in range(60):
        words = document("val", number)
        price, purse = words.index("price"), words.index("purse")
        assert abs(price - purse) >= 0.45 * len(words)
        assert min(price, purse) >= 0.12 * len(words)
        firsts["price" if price < purse else "purse"] += 1
    assert min(firsts.values()) > 15


def test_all_other_sentences_come_once_a_round():
    words = document("val", 3)
    sentences = Counter(tuple(words[at : at + SENTENCE]) for at in range(0, len(words), SENTENCE))
    rounds = len(words) // ROUND
    assert len(words) % ROUND == 0
    assert sum(count for sentence, count in sentences.items() if sentence[0] != "today") == 2
    assert all(rounds - 2 <= count <= rounds for sentence, count in sentences.items() if sentence[0] == "today")


def test_lengths_are_long_where_held_out_and_of_all_sizes_in_training():
    train, test = Needle("train", 4094).lengths, Needle("test", 4094).lengths
    assert test.min() >= 4094 * 3 // 4 - ROUND
    assert train.min() == ROUND
    assert max(train.max(), test.max()) <= 4094
    assert ((train % ROUND) == 0).all()
    halves = [int(train[(train > low) & (train <= 2 * low)].sum()) for low in (250, 500, 1000, 2000)]
    assert max(halves) < 1.5 * min(halves)  # as many words in each doubling


def test_a_document_depends_on_its_split_and_number_alone():
    one, other = Needle("train", 1024), Needle("train", 1024)
    assert np.array_equal(one.document(7, 480), other.document(7, 480))
    assert not np.array_equal(one.document(7, 480), one.document(9, 480))
    assert not np.array_equal(one.document(7, 480), Needle("val", 1024).document(7, 480))
    assert one.content == other.content != Needle("val", 1024).content
    assert len(WORDS) == 66


def test_documents_too_short_for_a_round_are_refused():
    with pytest.raises(DataError, match=f"needle: documents of up to 100 words, allowed: {ROUND} and above"):
        Needle("train", 100)
