"""A folder with one file for each split, told by how its name begins: train-v2.0.json, dev.jsonl, test.csv."""

from __future__ import annotations

import re
from pathlib import Path

from headway.data.files import listing, names, without_gz
from headway.data.image_files import ALIASES
from headway.errors import DataError

_SPLIT = re.compile(r"(train|val|valid|validation|dev|test)(?![a-z])", re.IGNORECASE)


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
