"""Files of vectors: sets or sequences of rows of numbers, from .npz arrays or from tables with one row an element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.data.files import Errors, listed, without_gz
from headway.data.npz_files import read_npz
from headway.data.parquet_files import missing_column
from headway.data.tables import read_separated
from headway.errors import DataError, one_line, shown
from headway.limits import expect_within

Floats = NDArray[np.float32]
Counts = NDArray[np.int64]
Targets = NDArray[Any]  # numbers, or the text of a table's cells
NPZ, TABLES = (".npz",), (".csv", ".tsv")
ENDINGS = (*NPZ, *TABLES)
ARRAYS = ("x", "y", "lengths", "features")
LARGEST = float(np.finfo(np.float32).max)
GROUPS = ("set", "set_id", "group", "group_id", "bag", "bag_id", "sequence", "sequence_id", "episode", "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of a table are read; those that a table does not name are found by `GROUPS`, or are all others."""

    group: str = ""  # the set of a row
    features: tuple[str, ...] = ()  # the numbers
    target: str = "label"  # the target


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSets:
    """Sets of vectors: the rows of all (M, N), how many each set has (S,), and what the sets are called."""

    where: str  # the file, for messages
    features: tuple[str, ...]
    rows: Floats
    lengths: Counts
    names: tuple[str, ...]
    targets: Targets | None = None  # (S,), or (M,) for one of each element
    by_element: bool = False

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Counts:
        """The first row of each set (S,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)

    def select(self, chosen: Sequence[int] | Counts) -> VectorSets:
        """These sets, in this order."""
        starts, numbers = self.starts, [int(n) for n in chosen]
        places = [np.arange(starts[n], starts[n] + self.lengths[n]) for n in numbers]
        rows = np.concatenate(places) if places else np.zeros(0, np.int64)
        targets = None if self.targets is None else self.targets[rows if self.by_element else np.asarray(numbers, int)]
        return VectorSets(
            where=self.where,
            features=self.features,
            rows=self.rows[rows],
            lengths=self.lengths[numbers],
            names=tuple(self.names[n] for n in numbers),
            targets=targets,
            by_element=self.by_element,
        )


def ending(path: Path) -> str:
    """The format of a file by its name, "" for none."""
    return next((each for each in ENDINGS if without_gz(path).lower().endswith(each)), "")


def read_vectors(path: Path, columns: Columns, *, errors: Errors = "strict", needs_target: bool = True) -> VectorSets:
    """The sets of a file. Raises DataError naming the file, and the line or the set, for what cannot be read.

    Without `needs_target` a file may lack the target, as a file to be classified does.
    """
    kind = ending(path)
    if not kind:
        raise DataError(f"{path}: not a file of vectors, expected {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    found = _npz(path, columns) if kind in NPZ else _table(path, columns, errors, needs_target)
    if needs_target and found.targets is None:
        raise DataError(f"{path}: no array y, which has the target of each set; there are x and lengths only")
    if not len(found):
        raise DataError(f"{path}: no sets, expected at least one")
    return found


# --- .npz -----------------------------------------------------------------------------------------------------------


def _npz(path: Path, columns: Columns) -> VectorSets:
    arrays = read_npz(path, ARRAYS)
    if "x" not in arrays:
        there = listed(list(arrays)) or "none"
        raise DataError(f"{path}: no array x of vectors (sets, elements, features); there are: {there}")
    x = arrays["x"]
    if x.ndim != 3 or x.dtype.kind not in "biuf" or not x.shape[2] or (len(x) and not x.shape[1]):
        raise DataError(f"{path}: x is {x.dtype} of shape {x.shape}, expected numbers (sets, elements, features)")
    count, longest, size = x.shape
    expect_within("list", size, f"{path}: features of a vector", DataError)
    lengths = _lengths(path, arrays.get("lengths"), count, longest)
    names = _feature_names(path, arrays.get("features"), size)
    real = np.arange(longest) < lengths[:, None]
    with np.errstate(over="ignore"):
        rows = x[real].astype(np.float32)
    places, numbers = np.nonzero(real)[1], np.repeat(np.arange(count), lengths)
    _expect_finite(rows, names, lambda n: f"{path}: set {numbers[n]}, element {places[n]}")
    if columns.features and columns.features != names:
        rows, names = _chosen(path, rows, names, columns.features)
    y, by_element = arrays.get("y"), False
    if y is not None:
        by_element = y.ndim == 2
        if y.shape not in ((count,), (count, longest)):
            raise DataError(
                f"{path}: y has shape {y.shape}, expected ({count},) or ({count}, {longest}), as x has sets"
            )
        y = y[real] if by_element else y
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            place = int(np.flatnonzero(~np.isfinite(y))[0])
            raise DataError(
                f"{path}: set {numbers[place] if by_element else place} has target {y[place]}, not a number"
            )
    called = tuple(map(str, range(count)))
    return VectorSets(
        where=str(path), features=names, rows=rows, lengths=lengths, names=called, targets=y, by_element=by_element
    )


def _lengths(path: Path, given: Targets | None, count: int, longest: int) -> Counts:
    if given is None:
        return np.full(count, longest, np.int64)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise DataError(f"{path}: lengths is {given.dtype} of shape {given.shape}, expected whole numbers ({count},)")
    wrong = np.flatnonzero((given < 1) | (given > longest))
    if len(wrong):
        raise DataError(f"{path}: set {wrong[0]} has length {given[wrong[0]]}, allowed: 1 to {longest}, as x has")
    return given.astype(np.int64)


def _feature_names(path: Path, given: Targets | None, size: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(n + 1) for n in range(size))
    names = tuple(str(name) for name in given.ravel())
    if given.shape != (size,) or given.dtype.kind != "U" or len(set(names)) != size:
        raise DataError(f"{path}: features is {given.dtype} of shape {given.shape}, expected {size} different names")
    return names


def _chosen(
    path: Path, rows: Floats, names: tuple[str, ...], wanted: tuple[str, ...]
) -> tuple[Floats, tuple[str, ...]]:
    """The columns that are read. Raises DataError for one that is not there."""
    unnamed = names == tuple(str(n + 1) for n in range(len(names)))
    if unnamed and len(names) == len(wanted):  # a file without names has them in the order of training
        return rows, wanted
    for name in wanted:
        if name not in names:
            raise DataError(f"{path}: no feature {shown(name)}; there are: {listed(names)}")
    return rows[:, [names.index(name) for name in wanted]], wanted


# --- tables ---------------------------------------------------------------------------------------------------------


def find_group(names: Sequence[str]) -> str | None:
    """The column that names the set of a row, by `GROUPS`; None without such a column."""
    known = {name.casefold(): name for name in reversed(names)}
    return next((known[name] for name in GROUPS if name in known), None)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the columns of a table are; the target may be missing."""

    group: int
    features: tuple[int, ...]
    target: int | None


def _table(path: Path, columns: Columns, errors: Errors, needs_target: bool) -> VectorSets:
    lines = read_separated(path, errors=errors)
    head = next(lines, None)
    if head is None:
        raise DataError(f"{path}: an empty table, expected a header and a row for each element")
    names = [cell.strip() for cell in head[1]]
    places = _places(path, names, columns, needs_target)
    sets: dict[str, list[int]] = {}
    rows: list[list[float]] = []
    targets: list[str] = []
    for number, cells in lines:
        if cells == [""]:  # an empty line of a TSV
            continue
        if len(cells) != len(names):
            raise DataError(f"{path}: line {number} has {len(cells)} columns, expected {len(names)}")
        sets.setdefault(_name(path, number, cells[places.group], names[places.group]), []).append(len(rows))
        rows.append([_number(path, number, names[at], cells[at]) for at in places.features])
        if places.target is not None:
            targets.append(cells[places.target].strip())
            if needs_target and not targets[-1]:
                where = f"line {number}, set {shown(cells[places.group])}"
                raise DataError(f"{path}: {where}: no target in column {shown(names[places.target])}")
    order = [row for group in sets.values() for row in group]
    return VectorSets(
        where=str(path),
        features=tuple(names[at] for at in places.features),
        rows=np.asarray(rows, np.float32).reshape(len(rows), len(places.features))[order],
        lengths=np.asarray([len(group) for group in sets.values()], np.int64),
        names=tuple(sets),
        targets=None if places.target is None else np.asarray(targets)[order],
        by_element=True,  # until `one_target` joins those of a set
    )


def _places(path: Path, names: list[str], columns: Columns, needs_target: bool) -> _Places:
    if len(set(names)) != len(names) or not all(names):
        raise DataError(f"{path}: line 1 is the header, expected a different name for each column, got {listed(names)}")
    group = columns.group or find_group(names)
    if group is None:
        hint = "expected one such as set or id that names the set of each row: --data.group COLUMN"
        raise DataError(f"{path}: columns {listed(names)}; {hint}")
    wanted = (group, *columns.features, *((columns.target,) if needs_target else ()))
    for name in wanted:
        if name not in names:
            raise missing_column(path, shown(name), names)
    others = tuple(name for name in names if name not in (group, columns.target))
    features = columns.features or others
    if not features:
        raise DataError(f"{path}: columns {listed(names)}; expected at least one of numbers beside {group}")
    if {group, columns.target} & set(features):
        raise DataError(f"{path}: data.features={listed(features)}, expected none of {group} and {columns.target}")
    target = names.index(columns.target) if columns.target in names else None
    return _Places(names.index(group), tuple(names.index(name) for name in features), target)


def _name(path: Path, line: int, cell: str, column: str) -> str:
    if not cell.strip():
        raise DataError(f"{path}: line {line}: no set named in column {shown(column)}")
    return cell.strip()


def _number(path: Path, line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        hint = "--data.features COLUMN,COLUMN names those to read"
        raise DataError(
            f"{path}: line {line}: {one_line(column)} is {shown(cell)}, expected a number; {hint}"
        ) from None
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise DataError(
            f"{path}: line {line}: {one_line(column)} is {shown(cell)}, expected a finite number of 32 bits"
        )
    return value


def _expect_finite(rows: Floats, names: tuple[str, ...], where: Any) -> None:
    wrong = np.argwhere(~np.isfinite(rows))
    if len(wrong):
        row, column = wrong[0].tolist()
        got = f"feature {shown(names[column])} is {rows[row, column]}"
        raise DataError(f"{where(row)}: {got}, expected a finite number of 32 bits")


def one_target(sets: VectorSets) -> VectorSets:
    """The sets with one target each. Raises DataError for a set whose elements have several."""
    if sets.targets is None or not sets.by_element:
        return sets
    starts = sets.starts
    for n, (start, length) in enumerate(zip(starts.tolist(), sets.lengths.tolist(), strict=True)):
        own = sets.targets[start : start + length]
        if (own != own[0]).any():
            other = own[own != own[0]][0]
            several = f"set {shown(sets.names[n])} has the targets {shown(str(own[0]))} and {shown(str(other))}"
            hint = "--task.predicts elements --model.pool none predicts a class of each element"
            raise DataError(f"{sets.where}: {several}, expected one target a set; {hint}")
    return VectorSets(
        where=sets.where,
        features=sets.features,
        rows=sets.rows,
        lengths=sets.lengths,
        names=sets.names,
        targets=sets.targets[starts],
    )


def classes_of(targets: Targets) -> NDArray[Any]:
    """Targets as the names of classes: whole numbers without a decimal point."""
    if targets.dtype.kind == "f" and (targets == np.round(targets)).all():
        targets = targets.astype(np.int64)
    return targets.astype(str)


def numbers_of(sets: VectorSets) -> NDArray[np.float64]:
    """Targets as numbers. Raises DataError for one that is not a finite number."""
    assert sets.targets is not None
    try:
        found = sets.targets.astype(np.float64)
    except ValueError:
        found = np.asarray([_float(str(cell)) for cell in sets.targets])
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        got = shown(str(sets.targets[wrong[0]]))
        hint = "a class is predicted with --task.predicts class"
        raise DataError(
            f"{sets.where}: set {shown(sets.names[wrong[0]])} has the target {got}, expected a finite number; {hint}"
        )
    return found


def _float(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
