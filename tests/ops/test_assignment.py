from __future__ import annotations

import itertools

import numpy as np
import pytest

from headway.errors import ShapeError
from headway.ops.assignment import assign


def costs(problems: int, rows: int, columns: int, seed: int, *, whole: bool = False) -> np.ndarray:
    random = np.random.default_rng(seed)
    drawn = random.integers(0, 4, (problems, rows, columns)) if whole else random.normal(size=(problems, rows, columns))
    return drawn.astype(np.float64)


def expect_assignment(chosen: np.ndarray, counts: np.ndarray, columns: int) -> None:
    for row, count in zip(chosen, counts, strict=True):
        assert (row[count:] == -1).all()
        assert len(set(row[:count])) == count
        assert ((row[:count] >= 0) & (row[:count] < columns)).all()


@pytest.mark.parametrize("whole", [False, True])
def test_no_other_assignment_costs_less(whole):
    """All of them are tried; whole numbers have many of equal cost."""
    given = costs(25, 4, 6, seed=1, whole=whole)
    counts = np.random.default_rng(2).integers(0, 5, 25)
    chosen = assign(given, counts)
    expect_assignment(chosen, counts, 6)
    for each, row, count in zip(given, chosen, counts, strict=True):
        least = min(each[range(count), list(order)].sum() for order in itertools.permutations(range(6), int(count)))
        assert each[range(count), row[:count]].sum() == pytest.approx(least, abs=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 5), (9, 30), (30, 31)])
def test_costs_are_those_of_scipy(rows, columns):
    linear_sum_assignment = pytest.importorskip("scipy.optimize").linear_sum_assignment
    for seed in range(8):
        given = costs(6, rows, columns, seed, whole=seed % 2 == 0)
        counts = np.random.default_rng(seed).integers(0, rows + 1, 6)
        counts[0] = rows
        chosen = assign(given, counts)
        expect_assignment(chosen, counts, columns)
        for each, row, count in zip(given, chosen, counts, strict=True):
            best = each[:count][linear_sum_assignment(each[:count])].sum()
            assert each[range(count), row[:count]].sum() == pytest.approx(best, abs=1e-9)


def test_a_problem_is_solved_alike_alone_and_among_others():
    given, counts = costs(8, 5, 9, seed=3), np.array([5, 0, 3, 5, 1, 2, 4, 5])
    together = assign(given, counts)
    for number in range(8):
        one = slice(number, number + 1)
        assert (assign(given[one], counts[one]) == together[number]).all()


def test_what_cannot_be_assigned_is_named():
    with pytest.raises(ShapeError, match="3 rows to assign to 2 columns, expected at most as many"):
        assign(np.zeros((1, 3, 2)), np.array([3]))
    with pytest.raises(ValueError, match="costs are NaN or infinite"):
        assign(np.full((1, 2, 2), np.nan), np.array([2]))
    assert assign(np.full((1, 2, 2), np.nan), np.array([0])).tolist() == [[-1, -1]]
    assert assign(np.zeros((0, 0, 4)), np.zeros(0, np.int64)).shape == (0, 0)
