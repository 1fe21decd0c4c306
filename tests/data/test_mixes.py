"""Mixes of prepared texts: exact shares, every block once an epoch, and nothing that has to be kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.batching import Cursor
from headway.data.mixes import MIXED_ROWS, Mix, MixedBlocks, MixedText, weights_of
from headway.data.prepared_store import PartStream
from headway.errors import ConfigError, DataError


class Ids:
    """A part with the numbers from `first` on."""

    def __init__(self, first: int, tokens: int) -> None:
        self.first, self.tokens = first, tokens

    def read(self, first: int, last: int) -> np.ndarray:
        return np.arange(self.first + first, self.first + last)

    def pieces(self):
        yield self.read(0, self.tokens)


def mix_of(*texts: tuple[float, int]) -> Mix:
    corpora = []
    for number, (weight, tokens) in enumerate(texts):
        stream = PartStream([Ids(1_000_000 * number, tokens)])
        corpora.append(MixedText(f"t{number}", weight, {"train": stream, "val": stream}, {"train": "x", "val": "y"}))
    return Mix(corpora)


def test_weights_of_a_spec():
    assert weights_of("a:0.7,b:0.3") == {"a": 0.7, "b": 0.3}
    assert weights_of("a:3, b/c d:1") == {"a": 0.75, "b/c d": 0.25}
    assert weights_of("a:1,b:0") == {"a": 1.0}
    assert weights_of("a:1e-3,b:0.999") == pytest.approx({"a": 0.001, "b": 0.999})
    assert weights_of("one.txt") == weights_of("a,b") == weights_of("a:0.7") == {}


def test_a_path_that_looks_like_a_mix_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:0.7,b:0.3").write_text("text")
    assert weights_of("a:0.7,b:0.3") == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("a:0,b:0", "the weights sum to 0"),
        ("a:1,b", "'b' has no weight"),
        ("a:-1,b:2", "the weight of a is -1, allowed: 0 and above"),
        ("a:nan,b:2", "the weight of a is nan"),
        ("a:inf,b:2", "the weight of a is inf"),
        ("a:1.2.3,b:2", "the weight of a is 1.2.3"),
        ("a:1,a:2", "a is there twice"),
    ],
)
def test_a_mix_that_cannot_be_is_named(spec, message):
    with pytest.raises(ConfigError, match=message):
        weights_of(spec)


def test_a_share_below_one_row_of_a_window_is_refused():
    with pytest.raises(ConfigError, match=r"t1 has 1e-06 of the mix, allowed: 0\.0001 and above"):
        mix_of((1 - 1e-6, 100), (1e-6, 100)).shares  # noqa: B018


@given(weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=7))
def test_shares_fill_a_window_and_are_the_nearest_to_the_weights(weights):
    total = sum(weights)
    shares = mix_of(*((weight / total, 100) for weight in weights)).shares
    assert shares.sum() == MIXED_ROWS
    assert np.abs(shares - MIXED_ROWS * np.asarray(weights) / total).max() < 1


def test_each_window_has_the_exact_share_of_each_text():
    order = mix_of((0.7, 50_000), (0.2, 9_000), (0.1, 300_000)).order(16, 8, seed=3)
    corpora, numbers = order.numbered(np.arange(3 * MIXED_ROWS))
    for window in range(3):
        found = corpora[window * MIXED_ROWS : (window + 1) * MIXED_ROWS]
        assert np.bincount(found).tolist() == [7000, 2000, 1000]
    for corpus in range(3):  # and no row of a text is left out or repeated
        own = np.sort(numbers[corpora == corpus])
        assert own.tolist() == list(range(len(own)))
    assert len(np.unique(corpora[:100])) == 3, "texts follow one another in no order"


def test_every_block_of_a_text_is_read_once_in_each_of_its_epochs():
    totals, context = (1000, 4567), 10
    order = MixedBlocks(totals, np.array([6000, 4000]), context, 5, seed=1)
    rows = np.arange(2 * MIXED_ROWS)
    corpora, numbers = order.numbered(rows)
    starts = order.block_starts(rows)
    for corpus, first in ((0, 0), (1, 1000)):
        own = corpora == corpus
        epochs = numbers[own] // order.blocks[corpus]
        for epoch in range(int(epochs.max())):  # the last one is not complete
            found = np.sort(starts[own][epochs == epoch])
            assert len(found) == order.blocks[corpus]
            assert np.diff(found).tolist() == [context] * (len(found) - 1)
            assert found[0] >= first
            assert found[-1] + context + 1 <= first + totals[corpus]


def test_epochs_of_a_text_begin_at_other_places_and_in_another_order():
    order = MixedBlocks((1000,), np.array([MIXED_ROWS]), 10, 98, seed=1)
    firsts = {int(order.block_starts(np.arange(e * 98, (e + 1) * 98)).min()) for e in range(20)}
    assert len(firsts) > 5


@given(cursor=st.integers(0, 40), seed=st.integers(0, 5))
def test_from_any_cursor_the_same_batches_follow(cursor, seed):
    order = mix_of((0.5, 700), (0.5, 900)).order(16, 8, seed=seed)
    following = order.after(Cursor())
    drawn = [next(following) for _ in range(cursor + 3)]
    resumed = order.after(drawn[cursor][1])
    for indices, at in drawn[cursor + 1 :]:
        again, place = next(resumed)
        assert (again.tolist(), place) == (indices.tolist(), at)
    assert all(len(indices) == 8 for indices, _ in drawn)


def test_a_row_far_into_a_terabyte_is_there_at_once():
    order = mix_of((0.999, 10**11), (0.001, 10**10)).order(1024, 32, seed=0)
    starts = order.epoch(0)[order.batches() - 1]
    assert starts.shape == (32,)
    assert 0 <= starts.min() <= starts.max() < 11 * 10**10 - 1024


def test_windows_of_the_joined_texts_lie_in_one_of_them():
    mix = mix_of((0.5, 700), (0.5, 900))
    order, stream = mix.order(16, 8, seed=0), mix.splits["train"]
    for batch in order.epoch(1):
        read = stream.windows(batch, 17)
        assert (np.diff(read, axis=1) == 1).all(), "one text, in its order"


def test_epochs_of_each_text_are_counted():
    order = MixedBlocks((1011, 2011), np.array([7500, 2500]), 10, 5, seed=1)
    assert order.epochs(400) == pytest.approx([300 / 100, 100 / 200])


def test_a_text_shorter_than_a_block_is_named():
    with pytest.raises(DataError, match="t1 has 16 tokens, a block of context 16 needs 17"):
        mix_of((0.5, 700), (0.5, 16)).order(16, 8, seed=0)
