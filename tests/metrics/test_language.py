from __future__ import annotations

import json
import math

import numpy as np
import pytest

from headway.errors import ConfigError, DataError
from headway.metrics.language import LanguageReport, ngram_baseline, unigram_entropy


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


def by_hand(train: list[int], val: list[int], n: int, vocab: int, alpha: float) -> float:
    """The same model one token and one order at a time."""

    def probability(context: list[int], symbol: int) -> float:
        below = probability(context[1:], symbol) if context else 1 / vocab
        size = len(context)
        follows = [train[i + size] for i in range(len(train) - size) if train[i : i + size] == context]
        return (follows.count(symbol) + alpha * vocab * below) / (len(follows) + alpha * vocab)

    chances = [probability(val[max(0, i - n + 1) : i], symbol) for i, symbol in enumerate(val)]
    return -sum(map(math.log, chances)) / len(val)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_the_ngram_model_is_the_one_written_out(n, alpha):
    random = np.random.default_rng(n)
    train, val = random.integers(0, 5, 200), random.integers(0, 6, 40)  # one symbol never seen in training
    expected = by_hand(train.tolist(), val.tolist(), n, 6, alpha)
    assert ngram_baseline(train, val, n, 6, alpha) == pytest.approx(expected, abs=1e-12)


def test_probabilities_of_all_continuations_add_up_to_one():
    train, start = np.random.default_rng(0).integers(0, 4, 100), [1, 3, 0, 2]
    before = 4 * ngram_baseline(train, np.array(start), 3, 7)
    after = [5 * ngram_baseline(train, np.array([*start, symbol]), 3, 7) for symbol in range(7)]
    assert sum(math.exp(before - nats) for nats in after) == pytest.approx(1)


def test_context_helps_where_there_is_something_to_know():
    cycle = np.tile(np.array([0, 1, 0, 2], dtype=np.uint16), 500)
    losses = [ngram_baseline(cycle, cycle, n, 3, 0.01) for n in (1, 2, 3)]
    # one symbol back tells everything after 1 or 2, two back tell all
    assert losses == pytest.approx([1.5 * math.log(2), 0.5 * math.log(2), 0], abs=0.01)
    assert losses[0] == pytest.approx(unigram_entropy(cycle, 3), abs=1e-3)


def test_a_large_vocabulary_needs_no_table():
    ids = np.random.default_rng(0).integers(0, 50_000, 20_000)
    assert ngram_baseline(ids[:15_000], ids[15_000:], 3, 50_000) == pytest.approx(math.log(50_000), abs=0.2)


def test_texts_shorter_than_the_context_have_an_answer():
    assert ngram_baseline(np.array([0]), np.array([0]), 3, 2, 1.0) == pytest.approx(math.log(3 / 2))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: unigram_entropy(np.array([0, 5]), 5), DataError, "ids runs from 0 to 5; expected 0 to 4"),
        (lambda: unigram_entropy(np.array([], dtype=int), 5), DataError, "ids is empty"),
        (lambda: ngram_baseline(np.array([0]), np.array([-1]), 1, 5), DataError, "val_ids runs from -1"),
        (lambda: ngram_baseline(np.array([0]), np.array([0]), 0, 5), ConfigError, "n=0"),
        (lambda: ngram_baseline(np.array([0]), np.array([0]), 5, 50_000), ConfigError, "vocab=50000"),
        (lambda: ngram_baseline(np.array([0]), np.array([0]), 1, 5, 0.0), ConfigError, "alpha=0.0"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
