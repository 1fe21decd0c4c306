from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import DataError
from headway.metrics.accuracy_by_position import first_divergence, position_report

A, THE, MAN, DOG, RUNS, END = range(6)


def test_the_decks_case():
    """The model says "the" for gold "a": forced, the next input is still "a"; free, it lives with its own word."""
    report = position_report(gold=[[A, MAN, RUNS, END]], forced=[[THE, MAN, RUNS, END]], free=[[THE, DOG, RUNS, END]])
    assert report.forced == (0, 1, 1, 1)
    assert report.free == (0, 0, 1, 1)
    assert report.gap == (0, 1, 0, 0)
    assert report.divergence == (0,)
    assert (report.forced_accuracy, report.free_accuracy) == (0.75, 0.5)


def test_each_position_counts_the_sentences_that_reach_it():
    gold = [[1, 2, 3], [1], [1, 2], []]
    report = position_report(gold, forced=[[1, 0, 3], [0], [1, 2], []], free=[[1, 2], [1, 9, 9], [0, 2], []])
    assert report.counts == (3, 2, 1)
    assert report.forced == pytest.approx((2 / 3, 1 / 2, 1))
    assert report.free == pytest.approx((2 / 3, 1, 0))
    assert report.divergence == (2, 1, 0, None)
    assert report.mean_divergence == 1
    assert report.forced_accuracy == pytest.approx(4 / 6)
    assert report.free_accuracy == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("gold", "free", "index"),
    [
        ([1, 2], [1, 2], None),
        ([1, 2], [1], 1),
        ([1, 2], [1, 2, 3], 2),
        ([1, 2], [3, 2], 0),
        ([], [], None),
        (["un", "chat"], ["un"], 1),
    ],
)
def test_first_divergence(gold, free, index):
    assert first_divergence(gold, free) == index
    assert first_divergence([str(n) for n in gold], [str(n) for n in free]) == index


LINES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=6)


@settings(max_examples=50, deadline=None)
@given(LINES)
def test_a_perfect_model_runs_free_as_it_runs_forced(gold):
    report = position_report(gold, forced=gold, free=gold)
    assert report.forced == report.free == (1.0,) * max(map(len, gold))
    assert report.mean_divergence is None
    assert sum(report.counts) == sum(map(len, gold))


@settings(max_examples=50, deadline=None)
@given(LINES, st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_up_to_the_first_divergence_free_and_forced_agree(gold, table):
    """A model that maps the last token to the next: both modes see the same prefix until the first mistake."""
    forced, free = [], []
    for line in gold:
        forced.append([table[token] for token in [0, *line[:-1]]])
        own = [0]
        for _ in line:
            own.append(table[own[-1]])
        free.append(own[1:])
    report = position_report(gold, forced, free)
    for right, guess, own, index in zip(gold, forced, free, report.divergence, strict=True):
        end = len(right) if index is None else index + 1
        assert guess[:end] == own[:end]
    assert report.forced[0] == report.free[0]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400))
def test_ranges_hold_every_position_once_and_keep_the_mean(first, second):
    gold = [[1] * first, [1] * second]
    free = [[1] * (first // 2), [0] * second]
    report = position_report(gold, forced=gold, free=free)
    ranges = report.ranges()
    assert [n for each in ranges for n in range(each.low, each.high + 1)] == list(range(1, max(first, second) + 1))
    assert len(ranges) <= 10
    assert sum(each.tokens for each in ranges) == first + second
    assert sum(each.free * each.tokens for each in ranges) == pytest.approx(first // 2)
    assert all(each.forced == 1 for each in ranges)


def test_ranges_are_narrow_at_the_start():
    report = position_report([[1] * 12], [[1] * 12], [[1] * 12])
    assert [each.label for each in report.ranges()] == ["1", "2", "3", "4-5", "6-10", "11-12"]
    assert [each.label for each in position_report([[1]], [[1]], [[]]).ranges()] == ["1"]


def test_json_has_null_where_nothing_diverged():
    assert position_report([[1]], [[1]], [[1]]).to_json() == {
        "forced_accuracy": 1, "free_accuracy": 1, "mean_divergence": None
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        (([[1]], [[1]], []), "1 gold, 1 forced and 0 free"),
        (([[1], [1, 2]], [[1], [1]], [[1], [1]]), "line 1: 1 forced tokens for 2 gold"),
        (([], [], []), "no gold token in 0 lines"),
        (([[]], [[]], [[1]]), "no gold token in 1 lines"),
    ],
)
def test_lists_that_do_not_fit_are_named(lists, words):
    with pytest.raises(DataError, match=words):
        position_report(*lists)
