import re
from hashlib import sha256

import pytest

from headway.data.datasets import load_parallel
from headway.data.synthetic.phrases import phrases

HELD_OUT = ("val", "test", "unseen")


@pytest.fixture(scope="module")
def data() -> dict[str, list[tuple[str, str]]]:
    return phrases()


def test_the_pairs_and_their_order_are_those_of_the_published_results(data):
    rows = (f"{name}\t{english}\t{french}" for name, part in data.items() for english, french in part)
    digest = sha256("\n".join(rows).encode()).hexdigest()
    assert digest == "4af4bd08d18e95da7583219b3b9f49f7ce7df94ed0adf2cbd25316d40a01e432"


def test_the_built_in_set_has_these_splits(data):
    assert load_parallel("phrases", "en", "fr").splits == data


def test_the_splits_and_their_sizes(data):
    assert list(data) == ["train", *HELD_OUT]
    assert sum(map(len, data.values())) >= 50_000
    assert all(len(data[name]) == 1000 for name in HELD_OUT)


def test_two_calls_agree_and_share_nothing(data):
    again = phrases()
    assert again == data
    again["train"].clear()
    assert phrases() == data


def test_an_english_source_has_one_french_target(data):
    rows = [pair for part in data.values() for pair in part]
    assert len({source for source, _ in rows}) == len(set(rows)) == len(rows)


def test_no_source_is_in_two_splits(data):
    sources = [{source for source, _ in part} for part in data.values()]
    assert len(set.union(*sources)) == sum(map(len, sources))


def test_the_cute_puppy_is_there(data):
    assert ("a cute puppy", "un chiot mignon") in [pair for part in data.values() for pair in part]


def test_case_and_punctuation(data):
    for part in data.values():
        for english, foreign in part:
            assert english == english.lower()
            assert foreign == foreign.lower()
            assert not re.search(r" [.?,]|\s\s|[*_/+!]", english)
            assert not re.search(r" [.,]|\S\?|\s\s|[*_/+!]", foreign)
            assert english[-1:] in ".?" if foreign[-1] in ".?" else english[-1] not in ".?"
