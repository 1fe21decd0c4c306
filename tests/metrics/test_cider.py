from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headway.errors import DataError
from headway.metrics.cider import cider, cider_scores

STORED = json.loads((Path(__file__).parent / "data" / "cider.json").read_text())
CAPTIONS = [pair["caption"].split() for pair in STORED["pairs"]]
REFERENCES = [[each.split() for each in pair["references"]] for pair in STORED["pairs"]]


def test_it_equals_pycocoevalcap_on_stored_pairs():
    assert len(CAPTIONS) >= 200
    expected = np.array([pair["score"] for pair in STORED["pairs"]])
    np.testing.assert_allclose(cider_scores(CAPTIONS, REFERENCES), expected, atol=1e-6, rtol=0)
    assert cider(CAPTIONS, REFERENCES) == pytest.approx(STORED["mean"], abs=1e-6)


def test_a_reference_again_is_worth_ten_and_other_words_nothing():
    references = [[["a", "red", "circle", "here"]], [["two", "blue", "squares", "there"]]]
    assert cider_scores([references[0][0], ["three", "green", "stars", "now"]], references) == pytest.approx(
        [10.0, 0.0]
    )


def test_saying_a_word_often_does_not_pay():
    references = [[["a", "red", "circle"]], [["a", "blue", "square"]]]
    once, often = (
        cider_scores([words.split(), ["a"]], references)[0] for words in ("red circle", "red red red red circle")
    )
    assert often < once


def test_one_image_tells_nothing_of_rarity():
    assert cider([["a"]], [[["a"]]]) == 0.0


def test_bad_input():
    with pytest.raises(DataError, match="1 captions for 2 images"):
        cider([["a"]], [[["a"]], [["b"]]])
    with pytest.raises(DataError, match="image 2 has no reference"):
        cider([["a"], ["b"]], [[["a"]], []])
    with pytest.raises(DataError, match="0 captions for 0 images"):
        cider([], [])
