"""The linear assignment problem, exactly, for a batch of small cost matrices at once.

Kuhn 1955 and Munkres 1957 in the form of shortest augmenting paths (Jonker and Volgenant 1987): rows are added one
after another, each along the path of least reduced cost to a free column. All problems of the batch take their steps
together, so that the number of array operations depends on the largest problem and not on how many there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headway.errors import ShapeError

Costs = NDArray[np.float64]
Columns = NDArray[np.int64]


def assign(costs: Costs, rows: NDArray[np.int64]) -> Columns:
    """A column for each row (P, R), no column twice in a problem, of the least total cost; -1 beyond a problem's rows.

    `costs` is (P, R, C) and `rows` (P,) says how many rows of each problem count. O(R²·C) steps for the whole batch.
    Raises ShapeError for more rows than columns, ValueError for costs that are NaN or infinite.
    """
    problems, most, columns = costs.shape
    if int(rows.max(initial=0)) > columns:
        raise ShapeError(f"{int(rows.max())} rows to assign to {columns} columns, expected at most as many")
    counted = np.arange(most) < rows[:, None]
    if not np.isfinite(costs[counted]).all():
        raise ValueError("costs are NaN or infinite")
    every = np.arange(problems)
    # Dual variables: costs - u - v is never negative and 0 along the assignment. Column 0 stands for "no column yet".
    u, v = np.zeros((problems, most + 1)), np.zeros((problems, columns + 1))
    row_of = np.zeros((problems, columns + 1), np.int64)  # the row of each column, counted from 1; 0: free
    for row in range(1, int(rows.max(initial=0)) + 1):
        _augment(costs, row, every[rows >= row], u, v, row_of)
    chosen = np.full((problems, most), -1, np.int64)
    where = np.argwhere(row_of[:, 1:] > 0)
    chosen[where[:, 0], row_of[where[:, 0], where[:, 1] + 1] - 1] = where[:, 1]
    return chosen


def _augment(costs: Costs, row: int, active: Columns, u: Costs, v: Costs, row_of: Columns) -> None:
    """Add a row (counted from 1) to the assignment of the problems `active`, in place."""
    columns = costs.shape[2]
    row_of[active, 0] = row
    least = np.full((len(active), columns + 1), np.inf)  # of the reduced cost of a path to each column
    used = np.zeros((len(active), columns + 1), bool)
    before = np.zeros((len(active), columns + 1), np.int64)  # the column before each on that path
    at = np.zeros(len(active), np.int64)  # the last column of the path
    open_ = np.arange(len(active))  # positions in `active` of the problems whose path goes on
    while len(open_):
        problem, column = active[open_], at[open_]
        used[open_, column] = True
        reached = row_of[problem, column]
        reduced = costs[problem, reached - 1] - u[problem, reached][:, None] - v[problem, 1:]
        shorter = ~used[open_, 1:] & (reduced < least[open_, 1:])
        rest = least[open_, 1:]
        rest[shorter] = reduced[shorter]
        least[open_, 1:] = rest
        back = before[open_, 1:]
        back[shorter] = np.broadcast_to(column[:, None], shorter.shape)[shorter]
        before[open_, 1:] = back
        free = np.where(used[open_, 1:], np.inf, rest)
        nearest = free.argmin(1) + 1
        step = free[np.arange(len(open_)), nearest - 1]
        on_path = used[open_]
        where = np.argwhere(on_path)
        u[problem[where[:, 0]], row_of[problem[where[:, 0]], where[:, 1]]] += step[where[:, 0]]
        v[problem] -= np.where(on_path, step[:, None], 0.0)
        least[open_] -= np.where(on_path, 0.0, step[:, None])
        at[open_] = nearest
        open_ = open_[row_of[problem, nearest] > 0]
    open_ = np.arange(len(active))
    while len(open_):  # along the path, each column takes the row of the column before it
        problem, column = active[open_], at[open_]
        previous = before[open_, column]
        row_of[problem, column] = row_of[problem, previous]
        at[open_] = previous
        open_ = open_[previous > 0]
    row_of[active, 0] = 0
