"""Files with annotations (images with captions, sounds with transcripts): checked, by split, with digests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np

from headway.data.files import listed, read_bytes
from headway.data.images import held_out
from headway.errors import DataError, one_line, shown


class AnnotatedFile(Protocol):
    """A file and the place that names it, for messages."""

    @property
    def where(self) -> str: ...
    @property
    def file(self) -> Path: ...


class AnnotatedReading(Protocol):
    """Which split to validate on ("" for `val`, or a tenth of train), and whether to skip missing and bad files."""

    @property
    def val(self) -> str: ...
    @property
    def skip_bad(self) -> bool: ...
    @property
    def to_train(self) -> bool: ...


F = TypeVar("F", bound=AnnotatedFile)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedFiles(Generic[F]):
    """The existing files of each split and the digest of each; `unit` is "image" or "sound", for messages."""

    path: Path
    unit: str
    reading: AnnotatedReading
    splits: dict[str, list[F]]
    digests: dict[str, list[bytes]]  # SHA-256 of the bytes of each file
    total: int  # files that are named, of all splits
    missing: int

    def count_left_out(self, read: Mapping[str, Sized], bad: Sequence[str]) -> int:
        """Missing and bad files, `bad` being the errors. Raises DataError for bad files, unless they are skipped, and
        for a split of which nothing was read."""
        if bad and not self.reading.skip_bad:
            raise _unusable(bad[0], len(bad), self.total, self.unit, "bad")
        for name, split in read.items():
            if not len(split):
                raise DataError(f"{self.path}: no {self.unit} of split {name} can be read, expected at least 1")
        return self.missing + len(bad)


def check_annotated(
    path: Path, found: Mapping[str, list[F]], unit: str, reading: AnnotatedReading
) -> AnnotatedFiles[F]:
    """The files of each split at `path`, with the split to validate on. Raises DataError for the first missing file,
    unless missing files are skipped, and for splits that cannot be trained on."""
    total = sum(map(len, found.values()))
    splits = {name: [each for each in those if each.file.is_file()] for name, those in found.items()}
    missing = [each for those in found.values() for each in those if not each.file.is_file()]
    if missing and not reading.skip_bad:
        named = f"{missing[0].where}: names {one_line(missing[0].file.name)}, which is not in {missing[0].file.parent}"
        raise _unusable(named, len(missing), total, unit, "missing")
    if "train" not in splits and reading.to_train:
        raise DataError(f"{path}: no {unit}s to train on; splits: {listed(tuple(splits))}")
    digests = {
        name: [hashlib.sha256(read_bytes(each.file)).digest() for each in those] for name, those in splits.items()
    }
    if reading.val:
        if reading.val not in splits:
            raise DataError(f"{path}: data.val={shown(reading.val)}, splits: {listed(tuple(splits))}")
        splits["val"], digests["val"] = splits[reading.val], digests[reading.val]
    elif "val" not in splits and reading.to_train:
        _hold_out(path, splits, digests, unit)
    return AnnotatedFiles(
        path=path, unit=unit, reading=reading, splits=splits, digests=digests, total=total, missing=len(missing)
    )


def _hold_out(path: Path, splits: dict[str, list[F]], digests: dict[str, list[bytes]], unit: str) -> None:
    """Move a tenth of train to `val`."""
    count = len(splits["train"])
    if count < 2:
        raise DataError(f"{path}: {count} {unit} to train on, expected at least 2, of which one is held out")
    held = held_out(digests["train"], np.zeros(count, np.int64))
    every = list(zip(splits["train"], digests["train"], held, strict=True))
    for name, out in (("train", False), ("val", True)):
        splits[name] = [each for each, _, is_held in every if is_held == out]
        digests[name] = [digest for _, digest, is_held in every if is_held == out]


def _unusable(first: str, count: int, total: int, unit: str, what: str) -> DataError:
    return DataError(f"{first}; {count:,} of {total:,} {unit}s are {what}; pass --data.skip_bad true to skip them")
