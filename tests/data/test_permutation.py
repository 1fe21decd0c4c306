"""The permutation by formula: one of all places, drawn without a bias that a million draws show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.permutation import Computed, Permutation

KEYS = st.integers(0, 2**31 - 1)


@given(size=st.integers(1, 5000), seed=KEYS, epoch=KEYS)
@settings(max_examples=60, deadline=None)
def test_every_number_has_one_place(size, seed, epoch):
    assert np.array_equal(np.sort(Permutation(size, seed, epoch)[:]), np.arange(size))


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1, 1_000_003])
def test_every_number_has_one_place_in_a_large_permutation(size):
    assert np.bincount(Permutation(size, 3, 1)[:], minlength=size).tolist() == [1] * size


@given(size=st.integers(1, 2**50), seed=KEYS, places=st.lists(st.floats(0, 1, exclude_max=True), min_size=1))
@settings(max_examples=60, deadline=None)
def test_a_place_is_computed_alone_as_among_others(size, seed, places):
    at = np.asarray([int(share * size) for share in places])
    permutation = Permutation(size, seed)
    found = permutation[at]
    assert ((found >= 0) & (found < size)).all()
    assert found.tolist() == [int(permutation[at[n : n + 1]][0]) for n in range(len(at))]
    assert len(set(found.tolist())) == len(set(at.tolist()))


def excess(counts: np.ndarray, freedom: int) -> float:
    """How many standard deviations a chi-square sum of equally likely counts lies above its mean."""
    mean = counts.mean()
    return float((((counts - mean) ** 2 / mean).sum() - freedom) / math.sqrt(2 * freedom))


@pytest.mark.parametrize("size", [5, 7, 100, 1000])
def test_a_million_draws_show_no_bias_of_a_place_or_of_what_follows(size):
    places, pairs = np.zeros((size, size)), np.zeros((size, size))
    for epoch in range(min(1_000_000 // size, 8_000)):
        drawn = Permutation(size, 7, epoch)[:]
        places[np.arange(size), drawn] += 1
        pairs[drawn[:-1], drawn[1:]] += 1
    assert abs(excess(places, (size - 1) ** 2)) < 4
    assert abs(excess(pairs[~np.eye(size, dtype=bool)], size * (size - 1) - 1)) < 4


def test_a_million_draws_of_a_large_permutation_have_no_bias():
    size, cells = 10**9 + 7, 100
    at = np.random.default_rng(0).integers(0, size, 1_000_000)
    counts = np.zeros((cells, cells))
    np.add.at(counts, (at * cells // size, Permutation(size, 0, 0)[at] * cells // size), 1)
    assert abs(excess(counts, cells * cells - 1)) < 4


def test_another_seed_or_epoch_or_window_gives_another_permutation():
    drawn = [Permutation(50, *path)[:].tolist() for path in [(0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 1)]]
    assert len({tuple(each) for each in drawn}) == len(drawn)


def test_a_computed_sequence_is_indexed_as_a_list():
    squares = Computed(5, lambda n: n * n)
    assert (list(squares), squares[-1], squares[1:3]) == ([0, 1, 4, 9, 16], 16, [1, 4])
    with pytest.raises(IndexError):
        squares[5]
