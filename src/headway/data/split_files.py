"""Which split a file or folder holds, told by its name: train-v2.0.json, dev.jsonl, test.csv."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from headway.data.files import listing, names, without_gz
from headway.errors import DataError

SPLITS = ("train", "val", "test")  # folders of these names are splits, others are classes
ALIASES = {"valid": "val", "validation": "val", "dev": "val", "t10k": "test"}
_SPLIT = re.compile(r"(train|val|valid|validation|dev|test)(?![a-z])", re.IGNORECASE)
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")  # train-00000-of-00001, as on the Hugging Face hub


def split_name(name: str) -> str:
    """The split that a file or folder of this name holds: train, val, test, or the name itself."""
    name = name.split("-0")[0]  # train-00000-of-00001, as on the Hugging Face hub
    return ALIASES.get(name, name)


def files_by_split(path: Path, endings: tuple[str, ...], wanted: str) -> dict[str, Path]:
    """The file of each split; a file alone is train. Raises DataError for a folder without a train file, `wanted`."""
    if not path.is_dir():
        return {"train": path}
    found: dict[str, Path] = {}
    for file in listing(path):
        if not without_gz(file).lower().endswith(endings):
            continue
        begins = _SPLIT.match(file.name)
        stem = without_gz(file).rpartition(".")[0]
        split = stem if begins is None else ALIASES.get(begins[1].lower(), begins[1].lower())
        if split in found:
            raise DataError(f"{path}: {found[split].name} and {file.name} are the same split, expected one of them")
        found[split] = file
    if "train" not in found:
        raise DataError(f"{path}: no {wanted}; there are: {names(listing(path))}")
    return found


def files_by_stem(folder: Path, files: Iterable[Path], ending: str) -> dict[str, Path]:
    """The files with this ending, by what their names have before it; `dev` is `val` unless there is one.

    Raises DataError for two files of one split.
    """
    found: dict[str, Path] = {}
    for path in files:
        name = without_gz(path)
        stem = _SHARD.sub("", name[: -len(ending)])
        if not stem or not name.lower().endswith(ending.lower()):
            continue
        if stem in found:
            raise DataError(f"{folder}: {found[stem].name} and {path.name} are the same split, expected one of them")
        found[stem] = path
    return renamed(found)


def renamed(splits: dict[str, Path]) -> dict[str, Path]:
    """The splits under headway's names, where that name is free: validation.csv is val, unless there is val.csv."""
    taken = set(splits)
    found: dict[str, Path] = {}
    for name, path in splits.items():
        split = ALIASES.get(name, name)
        if split in taken and split != name:
            split = name
        taken.add(split)
        found[split] = path
    return found
