"""The order of training examples: each once an epoch, from any cursor, and in older runs as numpy drew it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.batching import (
    COUNTED,
    FORMULA,
    Blocks,
    Bucketed,
    Cursor,
    Draws,
    Order,
    Shuffled,
    fixed_batches,
    in_buckets,
)
from tests.data.numpy_order import OlderBlocks, OlderBucketed, OlderDraws, OlderShuffled

SEEDS = st.integers(0, 2**31 - 1)
OLDER = [
    (Blocks, OlderBlocks, (1234, 7, 5)),
    (Shuffled, OlderShuffled, (103, 8)),
    (Draws, OlderDraws, (103, 8)),
    (Bucketed, OlderBucketed, (np.random.default_rng(0).integers(1, 60, (300, 2)), 200)),
]


def lengths_of(count: int, seed: int, sides: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 40, (count, sides))


@pytest.mark.parametrize(("order", "older", "arguments"), OLDER, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.parametrize("seed", [0, 5])
def test_older_runs_keep_the_order_of_numpy_to_the_last_number(order, older, arguments, seed):
    for version in range(1, FORMULA):
        kept = order(*arguments, seed).of(version)
        for epoch in (0, 1, 7):
            found, expected = kept.epoch(epoch), older(*arguments, seed).epoch(epoch)
            assert kept.batches(epoch) == len(found) == len(expected)
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    new = order(*arguments, seed)
    assert new.of(FORMULA) is new
    assert any(not np.array_equal(a, b) for a, b in zip(new.epoch(0), new.of(1).epoch(0), strict=False))


@given(count=st.integers(1, 300), seed=SEEDS, tokens=st.integers(1, 500), sides=st.sampled_from([1, 2]))
@settings(max_examples=60, deadline=None)
def test_buckets_are_cut_as_one_by_one(count, seed, tokens, sides):
    lengths = lengths_of(count, seed, sides)
    expected = OlderBucketed(lengths, tokens, seed).epoch(0)
    found = Bucketed(lengths, tokens, seed).of(1).epoch(0)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


@given(count=st.integers(1, 400), window=st.integers(1, 150), seed=SEEDS, epoch=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_bucketed_has_each_sequence_once_in_windows_of_any_size(count, window, seed, epoch):
    lengths = lengths_of(count, seed)
    order = Bucketed(lengths, 100, seed, window=window)
    batches = order.epoch(epoch)
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(count))
    assert all(len(rows) == 1 or lengths[rows].max() * len(rows) <= 100 for rows in batches)
    seen = list(itertools.takewhile(lambda pair: pair[1].epoch == epoch, order.after(Cursor(epoch))))
    assert [rows.tolist() for rows, _ in seen] == [rows.tolist() for rows in batches[: len(seen)]]
    assert len(seen) == len(batches) - 1


@pytest.mark.parametrize(
    "order",
    [
        Blocks(1234, 7, 5, 3),
        Shuffled(103, 8, 3),
        Draws(103, 8, 3),
        Bucketed(lengths_of(300, 0), 100, 3),
        Bucketed(lengths_of(300, 0), 100, 3, window=70),
    ],
    ids=lambda order: f"{type(order).__name__}-{order.windows}",
)
def test_from_any_cursor_the_same_batches_follow(order):
    straight = list(itertools.islice(order.after(Cursor()), 3 * order.batches() + 5))
    assert straight[-1][1].epoch >= 2
    for n, (_, cursor) in enumerate(straight[:-1]):
        rows, following = next(order.after(cursor))
        assert np.array_equal(rows, straight[n + 1][0])
        assert following == straight[n + 1][1]


@given(total=st.integers(2, 3000), context=st.integers(1, 40), rows=st.integers(1, 9), seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_blocks_do_not_overlap_and_lie_in_the_text(total, context, rows, seed):
    total = max(total, context + 1)
    for epoch in (0, 1):
        starts = np.sort(np.concatenate(list(Blocks(total, context, rows, seed).epoch(epoch))))
        assert (np.diff(starts) >= context).all()
        assert starts[0] >= 0
        assert starts[-1] + context < total


def test_numbers_of_rows_are_counted_ones_and_differ_by_epoch():
    order = Draws(50, 50, 1)
    (first,), (second,) = order.epoch(0), order.epoch(1)
    assert sorted(first[:, 0]) == sorted(second[:, 0]) == list(range(50))
    numbers = np.concatenate([first[:, 1], second[:, 1]])
    assert len(set(numbers.tolist())) == 100
    assert (numbers >= COUNTED).all()
    assert (order.of(1).epoch(0)[0][:, 1] < COUNTED).all()


def test_a_place_far_into_a_terabyte_is_there_at_once():
    order = Blocks(240 * 10**9, 1024, 16, 0)
    for rows, cursor in itertools.islice(order.after(Cursor(3, 10_000_000)), 2):
        assert len(set(rows.tolist())) == 16
        assert cursor.epoch == 3
    assert order.batches() == (240 * 10**9 - 1) // 1024 // 16


def test_a_million_sequences_are_laid_out_in_windows():
    lengths = np.random.default_rng(0).integers(1, 60, 1_200_000)
    order = Bucketed(lengths, 4096, 0)
    assert order.windows == 2
    batches = order.window(0, 1)
    assert len(np.unique(np.concatenate(list(batches)))) == 600_000


def test_evaluations_have_the_batches_of_every_version():
    lengths = lengths_of(90, 4)
    expected = OlderBucketed(lengths, 64, 0).epoch(0)
    assert [each.tolist() for each in fixed_batches(lengths, 64)] == [each.tolist() for each in expected]
    assert len(in_buckets(np.arange(90), lengths, 10**9)) == 1


def test_an_order_of_a_task_of_its_own_has_no_versions():
    class Alphabetical(Order):
        def epoch(self, number: int) -> list[np.ndarray]:
            return [np.arange(3), np.arange(3, 5)]

    order = Alphabetical(0)
    for version in (1, FORMULA):
        assert [rows.tolist() for rows in order.of(version).epoch(0)] == [[0, 1, 2], [3, 4]]
    assert [cursor for _, cursor in itertools.islice(order.after(Cursor()), 2)] == [Cursor(0, 1), Cursor(1)]
