from __future__ import annotations

import json
import math

import numpy as np
import pytest

from headway.errors import DataError
from headway.metrics.language import LanguageReport, unigram_entropy


def test_a_report_in_all_three_units():
    report = LanguageReport(nats=8 * math.log(4), tokens=8, bytes=16)
    assert report.loss == pytest.approx(math.log(4))
    assert report.perplexity == pytest.approx(4)
    assert report.bits_per_byte == pytest.approx(1)
    assert set(report.to_json()) == {"loss", "perplexity", "bits_per_byte", "tokens"}


def test_what_cannot_be_said_is_null_in_json():
    hopeless = LanguageReport(nats=1e6, tokens=1)
    assert hopeless.perplexity == math.inf
    expected = {"loss": 1e6, "perplexity": None, "bits_per_byte": None, "tokens": 1}
    assert json.loads(json.dumps(hopeless.to_json(), allow_nan=False)) == expected
    assert LanguageReport(nats=math.nan, tokens=1).to_json()["loss"] is None


@pytest.mark.parametrize("sizes", [(0, None), (3, 0)])
def test_nothing_measured_is_refused(sizes):
    with pytest.raises(DataError, match=f"tokens={sizes[0]}"):
        LanguageReport(1.0, *sizes)


def test_entropy_of_known_texts():
    assert unigram_entropy(np.arange(8).repeat(3), 8) == pytest.approx(math.log(8))
    assert unigram_entropy(np.array([0, 0, 0, 1]), 5) == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert math.copysign(1, unigram_entropy(np.array([2, 2, 2]), 3)) == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: unigram_entropy(np.array([0, 5]), 5), DataError, "ids runs from 0 to 5; expected 0 to 4"),
        (lambda: unigram_entropy(np.array([], dtype=int), 5), DataError, "ids is empty"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
