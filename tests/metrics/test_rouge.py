from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.errors import DataError
from headway.metrics.rouge import rouge, text_rouge, words

STORED = json.loads((Path(__file__).parent / "data" / "rouge.json").read_text())["cases"]
KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")


def test_it_equals_rouge_score_on_stored_texts():
    assert len(STORED) >= 200
    for case in STORED:
        found = text_rouge(case["output"], case["reference"]).to_json()
        assert found == pytest.approx({kind: case[kind] for kind in KINDS}, abs=1e-6), case


def test_the_figures_of_a_split_are_means_of_its_texts():
    found = rouge([case["output"] for case in STORED], [case["reference"] for case in STORED]).to_json()
    assert found == pytest.approx({kind: sum(case[kind] for case in STORED) / len(STORED) for kind in KINDS})


def test_the_same_text_is_worth_one_and_other_words_nothing():
    assert set(text_rouge("a b c\nd", "a b c\nd").to_json().values()) == {1.0}
    assert set(text_rouge("a b", "c d").to_json().values()) == {0.0}
    assert text_rouge("b a", "a b").rouge2 == 0.0
    assert text_rouge("b a", "a b").rougeL == 0.5


def test_words_are_letters_and_digits_of_the_lower_cased_text():
    assert words("Don't stop: 3.14 ÜBER") == ["don", "t", "stop", "3", "14", "ber"]


def test_unequal_numbers_of_texts_are_refused():
    with pytest.raises(DataError, match="1 outputs and 2 references"):
        rouge(["a"], ["a", "b"])
    with pytest.raises(DataError, match="0 outputs"):
        rouge([], [])
