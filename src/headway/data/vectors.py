"""Sets and sequences of vectors by split: from files, or the built-in `robots`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from headway.data.files import Errors, listing, names, without_gz
from headway.data.split_files import ALIASES
from headway.data.synthetic import robots
from headway.data.vector_files import Columns, VectorSets, ending, read_vectors
from headway.errors import DataError, one_line

COUNTS = {"train": 24_000, "val": 1_000, "test": 2_000}  # of `robots`
HELD_OUT = 10  # a tenth of train becomes val for data without a val split


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorData:
    """Sets by split; `drawn` says that val was drawn from train."""

    name: str
    splits: Mapping[str, VectorSets]
    drawn: bool = False

    @property
    def contents(self) -> dict[str, str]:
        """A digest of each split."""
        return {name: digest(sets) for name, sets in self.splits.items()}


def load_vector_files(path: Path, columns: Columns, *, errors: Errors = "strict", whole: bool = False) -> VectorData:
    """A file, or a folder with a file for each split. Without val, a tenth of train is held out, drawn at random.

    `whole` holds nothing out: all of a file is the split `test`, for evaluation. Raises DataError.
    """
    files = find_splits_of_vectors(path) if path.is_dir() else {"train": path}
    splits = {name: read_vectors(file, columns, errors=errors) for name, file in files.items()}
    if whole:
        return VectorData(name=str(path), splits=splits if path.is_dir() else {"test": splits["train"]})
    train = splits["train"]
    splits = {name: _like(train, each) for name, each in splits.items()}
    if "val" in splits:
        return VectorData(name=str(path), splits=splits)
    if len(train) < 2:
        raise DataError(f"{path}: {len(train)} set, expected at least 2: a tenth is held out for validation")
    order = np.random.default_rng(0).permutation(len(train))
    count = max(len(train) // HELD_OUT, 1)
    held, kept = np.sort(order[:count]), np.sort(order[count:])
    return VectorData(
        name=str(path), splits={**splits, "train": train.select(kept), "val": train.select(held)}, drawn=True
    )


def find_splits_of_vectors(folder: Path) -> dict[str, Path]:
    """The files of a folder by split. Raises DataError for none called train, or a split in two files."""
    found: dict[str, Path] = {}
    for path in listing(folder):
        kind = ending(path)
        if not kind:
            continue
        stem = without_gz(path)[: -len(kind)]
        split = ALIASES.get(stem, stem)
        if split in found:
            raise DataError(f"{folder}: {found[split].name} and {path.name} are the same split, expected one of them")
        found[split] = path
    if "train" not in found:
        raise DataError(f"{folder}: no train.npz, train.csv or train.tsv; there are: {names(listing(folder))}")
    return found


def _like(train: VectorSets, other: VectorSets) -> VectorSets:
    """A split with the features of train, in their order. Raises DataError if it has others."""
    if other.features == train.features:
        return other
    if sorted(other.features) != sorted(train.features):
        missing = next((name for name in train.features if name not in other.features), None)
        wrong = f"no feature {missing!r}" if missing else "more features than train"
        raise DataError(f"{other.where}: {one_line(wrong)}; train has: {', '.join(map(one_line, train.features))}")
    order = [other.features.index(name) for name in train.features]
    return replace(other, rows=other.rows[:, order], features=train.features)


def digest(sets: VectorSets) -> str:
    """The digest of the vectors and targets of a split."""
    whole = hashlib.sha256(sets.rows.tobytes())
    whole.update(sets.lengths.tobytes())
    whole.update("\0".join(sets.features).encode())
    if sets.targets is not None:
        whole.update("\0".join(map(str, sets.targets.tolist())).encode())
    return whole.hexdigest()


@cache
def load_robots() -> VectorData:
    """The built-in swarms, generated from fixed seeds."""
    splits = {}
    for seed, (name, count) in enumerate(COUNTS.items()):
        made = robots.swarms(count, seed=seed)
        real = np.arange(made.vectors.shape[1]) < made.lengths[:, None]
        splits[name] = VectorSets(
            where=f"robots, {name}",
            features=robots.FEATURES,
            rows=made.vectors[real],
            lengths=made.lengths,
            names=tuple(map(str, range(count))),
            targets=np.asarray(robots.CLASSES)[made.labels],
        )
    return VectorData(name="robots", splits=splits)
