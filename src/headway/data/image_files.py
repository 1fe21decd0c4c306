"""Finding labelled images: a folder per class, a parquet file, or IDX files. Each split can be iterated repeatedly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from headway.data.files import listing, names, read_bytes, read_lines, without_gz
from headway.data.idx import read_idx
from headway.data.image_decoding import ENDINGS, EncodedImage
from headway.data.tables import open_parquet
from headway.errors import DataError

IDX = (("-images-idx3-ubyte", "-labels-idx1-ubyte"), ("-images.idx3-ubyte", "-labels.idx1-ubyte"))
SPLITS = ("train", "val", "test")  # folders of these names are splits, others are classes
ALIASES = {"valid": "val", "validation": "val", "dev": "val", "t10k": "test"}
NAMES = "classes.txt"  # beside parquet or IDX: one class name per line, by class index
IMAGE_COLUMNS, LABEL_COLUMNS = ("image", "img", "picture"), ("label", "labels", "class", "fine_label")


class Split(Protocol):
    """Images that can be iterated repeatedly."""

    def __iter__(self) -> Iterator[EncodedImage]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """The files of class folders with their class indices."""

    files: tuple[tuple[Path, int], ...]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[EncodedImage]:
        for path, label in self.files:
            yield EncodedImage(str(path), label, read_bytes(path))


@dataclass(frozen=True, slots=True)
class IdxFiles:
    """Grey images in one file, their labels in another."""

    images: Path
    labels: Path

    def __len__(self) -> int:
        return len(read_idx(self.labels, dimensions=1))

    def __iter__(self) -> Iterator[EncodedImage]:
        images, labels = read_idx(self.images, dimensions=3), read_idx(self.labels, dimensions=1)
        if len(images) != len(labels):
            raise DataError(f"{self.images}: {len(images):,} images, {self.labels.name} has {len(labels):,} labels")
        for number, (pixels, label) in enumerate(zip(images, labels, strict=True), 1):
            yield EncodedImage(f"{self.images}: image {number}", int(label), pixels)


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Rows with the bytes of an image and a label: a number, or one of `words`."""

    path: Path
    image: str
    label: str
    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        with open_parquet(self.path) as file:
            return int(file.metadata.num_rows)

    def __iter__(self) -> Iterator[EncodedImage]:
        number = 0
        numbers = {word: n for n, word in enumerate(self.words)}
        with open_parquet(self.path) as file:
            for batch in file.iter_batches(batch_size=256, columns=[self.image, self.label]):
                for row in batch.to_pylist():
                    number += 1
                    where = f"{self.path}: row {number}"
                    yield EncodedImage(where, _number(where, row[self.label], numbers), _bytes(where, row[self.image]))


def _number(where: str, value: Any, numbers: dict[str, int]) -> int:
    if isinstance(value, str) and value in numbers:
        return numbers[value]
    if isinstance(value, int) and not isinstance(value, bool) and not numbers:
        return value
    allowed = f"one of {', '.join(numbers)}" if numbers else "a whole number from 0"
    raise DataError(f"{where}: label {value!r}, expected {allowed}")


def _bytes(where: str, value: Any) -> bytes:
    data = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(data, bytes):
        raise DataError(f"{where}: the image is a {type(data).__name__}, expected the bytes of a file")
    return data


def find_splits(
    path: Path, classes: tuple[str, ...], endings: tuple[str, ...] = ENDINGS
) -> tuple[dict[str, Split], tuple[str, ...]]:
    """The splits by name, and the class names, () if they follow from the labels only.

    Raises DataError naming the expected files.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if path.is_file():
        if path.suffix != ".parquet":
            raise DataError(f"{path}: images are a folder, or a file that ends with .parquet")
        return _parquets({"train": path}, classes)
    if tables := [file for file in listing(path) if file.suffix == ".parquet"]:
        files = {_split(file.stem): file for file in tables}
        if len(files) < len(tables):
            raise DataError(f"{path}: a split in more than one file, expected one each: {names(tables)}")
        return _parquets(files, classes or _listed(path))
    if found := _idx(path):
        return found, classes or _listed(path)
    folders = _folders(path)
    if not folders:
        looked = "class folders with images, parquet files or IDX files"
        raise DataError(f"{path}: no {looked}; there are: {names(listing(path))}")
    splits = {_split(folder.name): folder for folder in folders if _split(folder.name) in SPLITS}
    if "train" not in splits:
        splits = {"train": path}
    classes = classes or tuple(folder.name for folder in _folders(splits["train"]))
    return {split: _class_folders(folder, classes, endings) for split, folder in splits.items()}, classes


def _folders(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))


def _split(name: str) -> str:
    name = name.split("-0")[0]  # train-00000-of-00001, as on the Hugging Face hub
    return ALIASES.get(name, name)


def _listed(folder: Path) -> tuple[str, ...]:
    path = folder / NAMES
    return tuple(line.strip() for line in read_lines(path) if line.strip()) if path.is_file() else ()


def _class_folders(folder: Path, classes: tuple[str, ...], endings: tuple[str, ...]) -> ClassFolders:
    """The files of a folder's class folders. Raises DataError for an unknown class or one without images."""
    found: list[tuple[Path, int]] = []
    there, known = _folders(folder), _some(classes)
    if there and not any(each.name in classes for each in there):
        named = _some([each.name for each in there])
        raise DataError(f"{folder}: no folder has the name of a class; folders: {named}; classes: {known}")
    for each in there:
        if each.name not in classes:
            raise DataError(f"{each}: unknown class; classes: {known}")
        files = sorted(path for path in each.rglob("*") if path.suffix.lower() in endings and path.is_file())
        if not files:
            files_there = names(listing(each), most=5)
            what = "image" if endings == ENDINGS else "sound"
            raise DataError(f"{each}: no {what} ({', '.join(endings)}), expected at least 1; there are: {files_there}")
        found += [(path, classes.index(each.name)) for path in files]
    if not found:
        raise DataError(f"{folder}: no class folders, expected one for each class")
    return ClassFolders(tuple(found))


def _some(words: Sequence[str], most: int = 20) -> str:
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _idx(folder: Path) -> dict[str, Split]:
    files = {without_gz(path): path for path in listing(folder)}
    found: dict[str, Split] = {}
    for images, labels in IDX:
        for name, path in files.items():
            split = name.removesuffix(images)
            if split == name:
                continue
            if f"{split}{labels}" not in files:
                raise DataError(f"{path}: no {split}{labels} beside it")
            found[_split(split)] = IdxFiles(path, files[f"{split}{labels}"])
    return found


def _parquets(files: dict[str, Path], classes: tuple[str, ...]) -> tuple[dict[str, Split], tuple[str, ...]]:
    splits: dict[str, ParquetRows] = {}
    words: set[str] = set()
    for split, path in files.items():
        with open_parquet(path) as file:
            columns = file.schema_arrow.names
            image, label = (
                _column(path, columns, IMAGE_COLUMNS, "image"),
                _column(path, columns, LABEL_COLUMNS, "label"),
            )
            splits[split] = ParquetRows(path, image, label)
            classes = classes or _hub_names(file.schema_arrow.metadata, label)
            if str(file.schema_arrow.field(label).type) in ("string", "large_string"):
                words |= set(file.read(columns=[label]).column(label).unique().to_pylist()) - {None}
    if words:
        classes = classes or tuple(sorted(words))
        return {split: replace(rows, words=classes) for split, rows in splits.items()}, classes
    return dict(splits), classes


def _column(path: Path, columns: list[str], wanted: tuple[str, ...], what: str) -> str:
    for name in wanted:
        if name in columns:
            return name
    raise DataError(f"{path}: no column with the {what} ({', '.join(wanted)}); there are: {', '.join(columns)}")


def _hub_names(metadata: Any, label: str) -> tuple[str, ...]:
    """Class names from the metadata that the Hugging Face hub writes."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(map(str, features[label]["names"]))
    except (KeyError, TypeError, ValueError):
        return ()
