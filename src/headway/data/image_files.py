"""Finding labelled images: a folder per class, parquet, IDX or CIFAR files. Each split can be iterated repeatedly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from headway.counts import counted
from headway.data.cifar import class_name_file, find_cifar
from headway.data.files import inside, listed, listing, names, read_bytes, read_lines, without_gz
from headway.data.idx import read_idx
from headway.data.image_decoding import ENDINGS, EncodedImage
from headway.data.parquet_files import column_names, is_text, leaf_names, missing_column, open_parquet, read_columns
from headway.data.split_files import SPLITS, split_name
from headway.documents import parse_json
from headway.errors import DataError, one_line, shown

IDX = (("-images-idx3-ubyte", "-labels-idx1-ubyte"), ("-images.idx3-ubyte", "-labels.idx1-ubyte"))
NAMES = "classes.txt"  # beside parquet, IDX or CIFAR: one class name per line, by class index
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
            of = f"{self.labels.name} has {counted(len(labels), 'label')}"
            raise DataError(f"{self.images}: {counted(len(images), 'image')}, {of}")
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
        numbers = {word: n for n, word in enumerate(self.words)}
        for row, (image, label) in enumerate(read_columns(self.path, [self.image, self.label]), start=1):
            where = f"{self.path}: row {row}"
            yield EncodedImage(where, self._number(where, label, numbers), self._bytes(where, image))

    def _number(self, where: str, value: Any, numbers: dict[str, int]) -> int:
        if isinstance(value, str) and value in numbers:
            return numbers[value]
        if isinstance(value, int) and not isinstance(value, bool) and not numbers and abs(value) < 2**63:
            return value
        allowed = f"one of {listed(tuple(numbers))}" if numbers else "a whole number from 0"
        raise DataError(f"{where}: {one_line(self.label)} {shown(value)}, expected {allowed}")

    def _bytes(self, where: str, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise DataError(f"{where}: the image is a {type(value).__name__}, expected the bytes of a file")
        return value


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
        files = {split_name(file.stem): file for file in tables}
        if len(files) < len(tables):
            raise DataError(f"{path}: a split in more than one file, expected one each: {names(tables)}")
        return _parquets(files, classes or _listed(path))
    if found := find_idx(path):
        return dict(found), classes or _listed(path)
    if binary := find_cifar(path):
        return dict(binary), classes or _listed(path)
    there = subfolders(path)
    if not there:
        looked = "class folders with images, parquet, IDX or CIFAR files"
        raise DataError(f"{path}: no {looked}; there are: {names(listing(path))}")
    splits = {split_name(folder.name): folder for folder in there if split_name(folder.name) in SPLITS}
    if "train" not in splits:
        splits = {"train": path}
    classes = classes or tuple(_class_name(folder) for folder in subfolders(splits["train"]))
    return {split: _class_folders(path, folder, classes, endings) for split, folder in splits.items()}, classes


def subfolders(path: Path) -> list[Path]:
    """The folders in a folder, sorted by name, without hidden ones. Raises DataError."""
    try:
        return sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _class_name(folder: Path) -> str:
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{folder.parent}: the folder name {shown(folder.name)} is not UTF-8") from None
    return folder.name


def _listed(folder: Path) -> tuple[str, ...]:
    path = folder / NAMES if (folder / NAMES).is_file() else class_name_file(folder)
    return tuple(line.strip() for line in read_lines(path) if line.strip()) if path is not None else ()


def _class_folders(root: Path, folder: Path, classes: tuple[str, ...], endings: tuple[str, ...]) -> ClassFolders:
    """The files of a folder's class folders. Raises DataError for an unknown class or one without images.

    No link that leads out of `root` is followed.
    """
    if folder != root:
        inside(root, folder.name, str(root))
    found: list[tuple[Path, int]] = []
    there, known = subfolders(folder), listed(classes)
    if there and not any(each.name in classes for each in there):
        named = listed([each.name for each in there])
        raise DataError(f"{folder}: no folder has the name of a class; folders: {named}; classes: {known}")
    for each in there:
        if each.name not in classes:
            raise DataError(f"{each}: unknown class; classes: {known}")
        inside(root, each.name, str(folder), below=folder)
        files = sorted(path for path in each.rglob("*") if path.suffix.lower() in endings and path.is_file())
        if not files:
            files_there = names(listing(each), most=5)
            what = "image" if endings == ENDINGS else "sound"
            step = f"every folder here is a class: put {what}s of it there, or remove the folder"
            raise DataError(
                f"{each}: no {what} ({', '.join(endings)}), expected at least 1; there are: {files_there}; {step}"
            )
        for path in files:
            if path.is_symlink():
                inside(root, path.name, str(path.parent), below=path.parent)
        found += [(path, classes.index(each.name)) for path in files]
    if not found:
        raise DataError(f"{folder}: no class folders, expected one for each class")
    return ClassFolders(tuple(found))


def find_idx(folder: Path) -> dict[str, IdxFiles]:
    """The pairs of IDX files in a folder by split. Raises DataError for images without labels."""
    files = {without_gz(path): path for path in listing(folder)}
    found: dict[str, IdxFiles] = {}
    for images, labels in IDX:
        for name, path in files.items():
            split = name.removesuffix(images)
            if split == name:
                continue
            if f"{split}{labels}" not in files:
                raise DataError(f"{path}: no {split}{labels} beside it")
            found[split_name(split)] = IdxFiles(path, files[f"{split}{labels}"])
    return found


def _parquets(files: dict[str, Path], classes: tuple[str, ...]) -> tuple[dict[str, Split], tuple[str, ...]]:
    splits: dict[str, ParquetRows] = {}
    words: set[str] = set()
    for split, path in files.items():
        with open_parquet(path) as file:
            columns = column_names(file)
            image = _column(path, columns, IMAGE_COLUMNS, "image")
            label = _column(path, columns, LABEL_COLUMNS, "label")
            if f"{image}.bytes" in leaf_names(file):  # as on the Hugging Face hub: a struct of bytes and path
                image = f"{image}.bytes"
            splits[split] = ParquetRows(path, image, label)
            classes = classes or _hub_names(path, file.schema_arrow.metadata, label)
            texts = is_text(file, label)
        if texts:
            words |= {word for (word,) in read_columns(path, [label]) if word is not None}
    if words:
        classes = classes or tuple(sorted(words))
        return {split: replace(rows, words=classes) for split, rows in splits.items()}, classes
    return dict(splits), classes


def _column(path: Path, columns: list[str], wanted: tuple[str, ...], what: str) -> str:
    for name in wanted:
        if name in columns:
            return name
    raise missing_column(path, f"with the {what} ({', '.join(wanted)})", columns)


def _hub_names(path: Path, metadata: Any, label: str) -> tuple[str, ...]:
    """Class names from the metadata that the Hugging Face hub writes."""
    try:
        features = parse_json((metadata or {})[b"huggingface"], str(path))["info"]["features"]
        return tuple(map(str, features[label]["names"]))
    except (DataError, KeyError, TypeError):
        return ()
