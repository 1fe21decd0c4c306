"""What a folder of images or sounds holds, before any of them is decoded: classes, about how many, of what size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from PIL import Image

from headway.counts import counted
from headway.data import image_decoding, spectrograms
from headway.data.cifar import SIDE, find_cifar
from headway.data.files import listed, listing
from headway.data.idx import read_idx
from headway.data.image_decoding import FORMATS
from headway.data.image_files import IMAGE_COLUMNS, LABEL_COLUMNS, find_idx, subfolders
from headway.data.parquet_files import column_names, open_parquet
from headway.data.split_files import SPLITS, split_name
from headway.errors import DataError

MOST_FILES = 100_000  # entries of a class folder that are looked at
FIRST_FILES = 1_000  # entries among which there is a file of the kind
MEASURED = 48  # images whose size is read


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSurvey:
    """Images or sounds with classes: what shows it, how many in train, and the typical shorter side in pixels."""

    sign: str
    count: int
    side: int = 0  # 0: not known, or sounds
    grey: bool = False  # one channel, as MNIST's digits
    sounds: bool = False
    whole: bool = True  # every folder holds one; the others are named where the images are read


def survey_images(path: Path) -> ImageSurvey | None:
    """The labelled images or sounds at a path; None for something else. Raises DataError for what cannot be read."""
    if path.is_file():
        return _parquet(path) if path.suffix == ".parquet" else None
    if not path.is_dir():
        return None
    if idx := find_idx(path):
        if "train" not in idx:
            return None
        images = read_idx(idx["train"].images, dimensions=3)
        return ImageSurvey(
            sign=f"the IDX file {idx['train'].images.name}", count=len(images), side=min(images.shape[1:]), grey=True
        )
    if "train" in (cifar := find_cifar(path)):
        first = cifar["train"].files[0].name
        return ImageSurvey(sign=f"the CIFAR file {first}", count=len(cifar["train"]), side=SIDE)
    if tables := [file for file in listing(path) if file.suffix == ".parquet"]:
        return next((found for file in tables if split_name(file.stem) == "train" and (found := _parquet(file))), None)
    return _class_folders(path)


def _class_folders(path: Path) -> ImageSurvey | None:
    """Two or more folders that hold images, or sounds, and most of those there are; in `train`, if there is such one.

    Raises DataError for a single one.
    """
    there = subfolders(path)
    root = next((each for each in there if split_name(each.name) == "train"), path)
    classes = subfolders(root) if root != path else [each for each in there if split_name(each.name) not in SPLITS]
    for endings, sounds in ((image_decoding.ENDINGS, False), (spectrograms.ENDINGS, True)):
        found = [each for each in classes if any(_files(each, endings, FIRST_FILES))]
        if 2 * len(found) <= len(classes):
            continue
        if len(classes) < 2:
            raise DataError(f"{path}: 1 class ({listed([classes[0].name])}), expected at least 2{_step(classes[0])}")
        files = {each: list(_files(each, endings, MOST_FILES)) for each in found}
        names = ", ".join(f"{each.name}/" for each in found[:3]) + (", …" if len(found) > 3 else "")
        count = sum(map(len, files.values()))
        what = "sounds" if sounds else "images"
        sign = f"{counted(len(found), 'class folder')} ({names}) with {count:,} {what}"
        side = 0 if sounds else _side(files)
        return ImageSurvey(sign=sign, count=count, side=side, sounds=sounds, whole=found == classes)
    return None


def _step(folder: Path) -> str:
    """What to pass instead of the only folder of a folder, as archives unpack, that holds the class folders itself."""
    inner = subfolders(folder)
    if len(inner) < 2:
        return ""
    return f"; {folder} holds {len(inner)} folders ({listed([each.name for each in inner], most=3)}): --data {folder}"


def _files(folder: Path, endings: tuple[str, ...], most: int) -> Iterator[Path]:
    """The files of a kind among the first entries of a folder, which may be any of the user's, however large."""
    return (path for path in islice(folder.rglob("*"), most) if path.suffix.lower() in endings)


def _side(files: dict[Path, list[Path]]) -> int:
    """The median of the shorter sides of some images of each class, by their headers; 0 if none can be read."""
    each = max(MEASURED // len(files), 1)
    sides = []
    for path in [path for found in list(files.values())[:MEASURED] for path in found[:: max(len(found) // each, 1)]]:
        try:
            with Image.open(path, formats=FORMATS) as image:
                sides.append(min(image.size))
        except Exception:  # Pillow's readers may raise anything on invalid bytes; training names the file
            continue
    return int(median(sides)) if sides else 0


def _parquet(path: Path) -> ImageSurvey | None:
    try:
        with open_parquet(path) as file:
            columns, count = column_names(file), int(file.metadata.num_rows)
    except DataError:
        return None
    image = next((name for name in IMAGE_COLUMNS if name in columns), None)
    label = next((name for name in LABEL_COLUMNS if name in columns), None)
    if image is None or label is None:
        return None
    return ImageSurvey(sign=f"the columns {image} and {label} of {path.name}", count=count)
