"""The binary form of CIFAR-10 and CIFAR-100: records of label bytes and 32 × 32 pixels by channel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.data.files import listing, read_bytes, without_gz
from headway.data.image_decoding import EncodedImage
from headway.errors import DataError

SIDE, CHANNELS = 32, 3
PIXELS = CHANNELS * SIDE * SIDE
TEN = re.compile(r"data_batch_\d+\.bin|test_batch\.bin")  # the files of cifar-10-batches-bin
HUNDRED = ("train.bin", "test.bin")  # those of cifar-100-binary, beside the names of its classes
NAMES_OF_TEN, NAMES_OF_HUNDRED = "batches.meta.txt", "fine_label_names.txt"


@dataclass(frozen=True, slots=True)
class CifarFiles:
    """The files of a split. The last of the `labels` bytes of a record is the class (CIFAR-100: the fine one)."""

    files: tuple[Path, ...]
    labels: int = 1

    def __len__(self) -> int:
        return sum(len(self._records(path)) for path in self.files)

    def __iter__(self) -> Iterator[EncodedImage]:
        for path in self.files:
            for number, record in enumerate(self._records(path), 1):
                pixels = record[self.labels :].reshape(CHANNELS, SIDE, SIDE).transpose(1, 2, 0)
                label = int(record[self.labels - 1])
                yield EncodedImage(f"{path}: image {number}", label, np.ascontiguousarray(pixels))

    def _records(self, path: Path) -> NDArray[np.uint8]:
        """The records of a file (N, labels + 3072). Raises DataError for a size that is not a multiple of a record."""
        data, size = read_bytes(path), self.labels + PIXELS
        if not data or len(data) % size:
            raise DataError(
                f"{path}: {len(data):,} bytes, expected records of {size:,} bytes, as CIFAR's binary form has"
            )
        return np.frombuffer(data, np.uint8).reshape(-1, size)


def find_cifar(folder: Path) -> dict[str, CifarFiles]:
    """The splits of a folder in CIFAR's binary form, plain or gzipped; empty for another folder."""
    files = {without_gz(path): path for path in listing(folder)}
    if ten := [name for name in sorted(files) if TEN.fullmatch(name)]:
        parts = {
            "train": [files[name] for name in ten if name.startswith("data")],
            "test": [files[name] for name in ten if name.startswith("test")],
        }
        return {split: CifarFiles(tuple(found)) for split, found in parts.items() if found}
    if NAMES_OF_HUNDRED in files:
        return {Path(name).stem: CifarFiles((files[name],), labels=2) for name in HUNDRED if name in files}
    return {}


def class_name_file(folder: Path) -> Path | None:
    """The file of class names that CIFAR comes with, if it is there."""
    return next((folder / name for name in (NAMES_OF_TEN, NAMES_OF_HUNDRED) if (folder / name).is_file()), None)
