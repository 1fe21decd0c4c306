"""COCO instances: a JSON file per split with images, annotations and categories, beside the images."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.data.boxes import BoxImages, BoxReading, BoxStore, letterboxed, open_boxes, write_store
from headway.data.coco import CocoEntry, coco_entries, coco_image, split_files
from headway.data.files import listed, listing, names, read_bytes
from headway.data.images import Progress, held_out
from headway.data.token_store import fingerprint
from headway.documents import open_regular, read_json
from headway.errors import DataError
from headway.storage.commit import discard
from headway.storage.manifest import problems

KIND = "instances"  # what the file is expected to have, in messages
RULE = "letterbox 1"  # part of the cache key; change it when reading changes
SLACK = 1.0  # pixels by which a box may stand out of its image, as some of COCO's do by rounding; it is cut
BEGINNING = 1 << 23  # bytes of a file in which boxes are looked for


@dataclass(frozen=True, slots=True)
class _Object:
    """An annotation: its box as x, y, width, height, its class, its area (None: that of the box), and its place."""

    entry: CocoEntry
    box: tuple[float, ...]
    label: int
    area: float | None
    crowd: bool


@dataclass(frozen=True, slots=True)
class _Pictured:
    """An image with its objects, before it is decoded."""

    path: Path
    objects: list[_Object] = field(default_factory=list)

    def digest(self) -> bytes:
        """Of the file and the objects."""
        whole = hashlib.sha256(read_bytes(self.path))
        for each in self.objects:
            whole.update(repr((each.box, each.label, each.area, each.crowd)).encode())
        return whole.digest()


def box_files(folder: Path) -> dict[str, Path]:
    """The JSON files of a folder that have boxes and no keypoints, as far as their beginning shows, by split."""
    return {split: file for split, file in split_files(folder).items() if _has_boxes(file)}


def _has_boxes(file: Path) -> bool:
    try:
        with open_regular(file) as stream:
            beginning = stream.read(BEGINNING)
    except OSError:
        return False
    return b'"keypoints"' not in beginning and (b'"bbox"' in beginning or "instances" in file.stem)


def load_coco_boxes(path: Path, reading: BoxReading, progress: Progress) -> BoxImages:
    """A folder with `train.json` (or `instances_train2017.json`) and the images it names.

    Without a val split, a tenth of train is held out by content. For evaluation, any split will do. Raises DataError
    naming the file, the entry and the problem.
    """
    files = split_files(path) if path.is_dir() else {}
    if not files or (reading.to_train and "train" not in files):
        raise DataError(f"{path}: no train.json with COCO's instances; there are: {names(listing(path))}")
    found: dict[str, list[_Pictured]] = {}
    classes = reading.classes
    for split in sorted(files, key=lambda name: name != "train"):
        classes, found[split] = _read(files[split], split, classes)
    digests = {split: _digests(split, pictured, progress) for split, pictured in found.items()}
    if reading.to_train and "val" not in found:
        if len(found["train"]) < 2:
            raise DataError(f"{files['train']}: 1 image, expected at least 2")
        held = held_out(digests["train"], np.zeros(len(digests["train"]), np.int64))
        whole, all_digests = found["train"], digests["train"]
        for split, rows in (("train", np.flatnonzero(~held)), ("val", np.flatnonzero(held))):
            found[split], digests[split] = [whole[row] for row in rows], [all_digests[row] for row in rows]
    contents = {
        split: hashlib.sha256(b"".join(["\0".join(classes).encode(), *each])).hexdigest()
        for split, each in digests.items()
    }
    splits = {split: _stored(split, pictured, contents[split], reading, progress) for split, pictured in found.items()}
    if reading.to_train and not splits["train"].objects:
        raise DataError(f"{files['train']}: no object that is not a crowd, expected at least 1")
    return BoxImages(classes=classes, splits=splits, contents=contents)


def _read(file: Path, split: str, known: tuple[str, ...]) -> tuple[tuple[str, ...], list[_Pictured]]:
    """The classes, those known first if there are any, and the images of a file with their objects."""
    tree = read_json(file, most="document-bytes", nonfinite=True)  # numbers are checked where they are used
    classes, labels = _categories(file, coco_entries(file, tree, "categories", KIND), known)
    images: dict[int | str, _Pictured] = {}
    for entry in coco_entries(file, tree, "images", KIND):
        key = entry.key("id")
        if key in images:
            entry.reject("id", key, "an id that no other image has")
        images[key] = _Pictured(coco_image(file.parent, split, entry.text("file_name"), entry.where))
    if not images:
        raise DataError(f"{file}: no images, expected at least 1")
    for entry in coco_entries(file, tree, "annotations", KIND):
        key = entry.key("image_id")
        if key not in images:
            entry.reject("image_id", key, "the id of one of images")
        images[key].objects.append(_object(entry, labels))
    return classes, list(images.values())


def _categories(
    file: Path, entries: list[CocoEntry], known: tuple[str, ...]
) -> tuple[tuple[str, ...], Mapping[int | str, int]]:
    """The names of the classes by number, in the order of the file unless they are known, and the number of each id."""
    named: dict[int | str, str] = {}
    for entry in entries:
        key, name = entry.key("id"), entry.text("name")
        if key in named:
            entry.reject("id", key, "an id that no other category has")
        if name in named.values():
            entry.reject("name", name, "a name that no other category has")
        if known and name not in known:
            entry.reject("name", name, f"one of {listed(known, most=10)}")
        named[key] = name
    if not named:
        raise DataError(f"{file}: no categories, expected at least 1")
    classes = known or tuple(named.values())
    return classes, {key: classes.index(name) for key, name in named.items()}


def _object(entry: CocoEntry, labels: Mapping[int | str, int]) -> _Object:
    """An annotation, checked as far as it can be without its image."""
    box = entry.pixels("bbox", 4)
    if box[2] <= 0 or box[3] <= 0:
        entry.reject("bbox", list(box), "a width and a height above 0")
    category = entry.key("category_id")
    if category not in labels:
        entry.reject("category_id", category, "the id of one of categories")
    crowd = entry.integer("iscrowd", 0, most=1)
    area = entry.number("area", above=0) if entry.present("area") else None
    return _Object(entry, box, labels[category], area, bool(crowd))


def _digests(split: str, pictured: list[_Pictured], progress: Progress) -> list[bytes]:
    found = []
    for each in pictured:
        found.append(each.digest())
        progress(f"reading {split}", len(found), len(pictured))
    return found


def _stored(split: str, pictured: list[_Pictured], content: str, reading: BoxReading, progress: Progress) -> BoxStore:
    """The store of a split, made if necessary: images are decoded one at a time."""
    folder = reading.cache / f"boxes-{fingerprint([content, str(reading.size), RULE])}"
    if not folder.exists() or problems(folder):
        discard(folder)
        lists: dict[str, list[object]] = {
            name: [] for name in ("scales", "boxes", "classes", "areas", "crowds", "starts")
        }
        arrays: dict[str, NDArray[np.generic]] = {}

        def pixels_of_each() -> Iterator[bytes]:
            for number, each in enumerate(pictured, 1):
                with warnings.catch_warnings():  # Pillow warns about what is checked here
                    warnings.simplefilter("ignore")
                    pixels, size, scale = letterboxed(read_bytes(each.path), str(each.path), reading.size)
                lists["scales"].append(scale)
                lists["starts"].append(len(lists["boxes"]))
                for thing in each.objects:
                    box = _inside(thing, size)
                    lists["boxes"].append(box)
                    lists["classes"].append(thing.label)
                    lists["areas"].append(box[2] * box[3] if thing.area is None else thing.area)
                    lists["crowds"].append(thing.crowd)
                yield pixels.tobytes()
                progress(f"decoding {split}", number, len(pictured))
            lists["starts"].append(len(lists["boxes"]))
            arrays.update({name: np.asarray(values) for name, values in lists.items()})

        write_store(folder, pixels_of_each(), arrays)
    return open_boxes(folder, reading.size)


def _inside(thing: _Object, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """The box of an object, cut to its image. Raises DataError for one that stands out by more than a pixel."""
    x, y, width, height = thing.box
    if min(x, y) < -SLACK or x + width > size[0] + SLACK or y + height > size[1] + SLACK:
        thing.entry.reject("bbox", list(thing.box), f"a box inside its image of {size[0]} × {size[1]} pixels")
    left, top, right, bottom = max(x, 0.0), max(y, 0.0), min(x + width, size[0]), min(y + height, size[1])
    if right <= left or bottom <= top:
        thing.entry.reject("bbox", list(thing.box), f"a box inside its image of {size[0]} × {size[1]} pixels")
    return left, top, right - left, bottom - top
