"""COCO keypoints: a JSON file per split beside the images; each labelled person is cropped by its box.

What all of COCO's annotations have in common is here too: entries whose fields are checked when they are read.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from headway.checked_json import JsonFields
from headway.data.files import inside, listing, names, read_bytes
from headway.data.image_decoding import Pixels, open_image
from headway.data.images import Progress
from headway.data.poses import Floats, Poses, PoseStore, digest
from headway.data.synthetic.stick_figures import KEYPOINTS
from headway.documents import open_regular, read_json
from headway.errors import DataError, shown

SPLITS = ("train", "val", "test")
MAX_COORDINATE = 1_000_000  # pixels
BEGINNING = 1 << 23  # bytes of a file in which keypoints are looked for
KIND = "keypoints"  # what the file is expected to have, in messages
MARGIN = 1.25  # side of the crop over the longer side of a person's box


def load_coco(path: Path, size: int, progress: Progress) -> Poses:
    """A folder with `train.json` (or `person_keypoints_train2017.json`) and the images it names.

    Without a val split, the last tenth of train is used. Raises DataError naming the file and the problem.
    """
    files = split_files(path)
    if "train" not in files:
        raise DataError(f"{path}: no train.json with keypoints; there are: {names(listing(path))}")
    splits = {split: _read(file, split, size, progress) for split, file in files.items()}
    if "val" not in splits:
        whole = splits["train"]
        kept = len(whole) - max(len(whole) // 10, 1)
        if not kept:
            raise DataError(f"{files['train']}: 1 person with keypoints, expected at least 2")
        for split, rows in (("train", slice(0, kept)), ("val", slice(kept, None))):
            splits[split] = PoseStore(whole.pixels[rows], whole.keypoints[rows], whole.areas[rows])
    return Poses(splits=splits, contents={split: digest(store) for split, store in splits.items()})


def keypoint_files(folder: Path) -> dict[str, Path]:
    """The JSON files of a folder that have keypoints, as far as their beginning shows, by split."""
    return {split: file for split, file in split_files(folder).items() if "keypoints" in file.stem or _mentions(file)}


def split_files(folder: Path) -> dict[str, Path]:
    """The JSON files of a folder whose names tell their split."""
    return {
        split: file for file in listing(folder) for split in SPLITS if file.suffix == ".json" and split in file.stem
    }


def _mentions(file: Path) -> bool:
    try:
        with open_regular(file) as stream:
            return b'"keypoints"' in stream.read(BEGINNING)
    except OSError:
        return False


def _read(file: Path, split: str, size: int, progress: Progress) -> PoseStore:
    tree = read_json(file, most="document-bytes", nonfinite=True)  # numbers are checked where they are used
    images = coco_entries(file, tree, "images")
    names_of = {image.key("id"): image.text("file_name") for image in images}
    people = [each for each in coco_entries(file, tree, "annotations") if each.labelled()]
    if not people:
        raise DataError(f"{file}: no person with a labelled keypoint, expected at least 1")
    made = []
    for number, person in enumerate(people, 1):
        made.append(_crop(file, split, person, names_of, size))
        progress(f"cutting {split}", number, len(people))
    pixels, keypoints, areas = (np.stack(part) for part in zip(*made, strict=True))
    return PoseStore(pixels, keypoints, areas)


class CocoEntry(JsonFields):
    """An image or a person of the file, whose fields are checked when they are read."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        super().__init__(values, where=where)
        self.where = where

    def key(self, name: str) -> int | str:
        """The id of an image."""
        value = self.value(name)
        if type(value) not in (int, str):
            self.reject(name, value, "a whole number or a string")
        found: int | str = value
        return found

    def pixels(self, name: str, count: int) -> tuple[float, ...]:
        """Coordinates."""
        found = self.numbers(name, count=count)
        for n, value in enumerate(found):
            if abs(value) > MAX_COORDINATE:
                self.reject(f"{name}[{n}]", value, f"at most {MAX_COORDINATE:,}")
        return found

    def labelled(self) -> bool:
        """Whether this is one person, not a crowd, with a keypoint that is not left out."""
        points = self.value("keypoints", [])
        if not isinstance(points, list):
            self.reject("keypoints", points, "a list")
        return not self.value("iscrowd", 0) and any(points[2::3])


def coco_entries(file: Path, tree: Any, key: str, kind: str = KIND) -> list[CocoEntry]:
    """The entries of a list of the file. Raises DataError if it is not a list of objects."""
    entries = tree.get(key) if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise DataError(f"{file}: not COCO's {kind}: no list {key!r}")
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise DataError(f"{file}: {key}[{number}] is {shown(entry)}, expected an object")
    return [CocoEntry(entry, f"{file}: {key}[{number}]") for number, entry in enumerate(entries)]


def _crop(
    file: Path, split: str, person: CocoEntry, names_of: dict[int | str, str], size: int
) -> tuple[Pixels, Floats, np.float32]:
    """A square crop (3, size, size) of a person with keypoints (K, 3) and area in its pixels, padded with black."""
    points = np.array(person.pixels("keypoints", 3 * len(KEYPOINTS)), np.float32).reshape(-1, 3)
    x, y, width, height = person.pixels("bbox", 4)
    area = person.number("area", above=0)
    if area > MAX_COORDINATE**2:
        person.reject("area", area, f"at most {MAX_COORDINATE**2:,}")
    image_id = person.key("image_id")
    if image_id not in names_of:
        person.reject("image_id", image_id, "the id of one of images")
    side = MARGIN * max(width, height)
    left, top = x + width / 2 - side / 2, y + height / 2 - side / 2
    box = (round(left), round(top), round(left + side), round(top + side))
    if box[2] - box[0] < 1 or box[3] - box[1] < 1:
        person.reject("bbox", [x, y, width, height], "a width and a height of at least a pixel")
    path = coco_image(file.parent, split, names_of[image_id], person.where)
    with warnings.catch_warnings():  # Pillow warns about what is checked here
        warnings.simplefilter("ignore")
        image = open_image(read_bytes(path), str(path))
    # A wrong box could need more memory than there is.
    apart = box[0] >= image.width or box[1] >= image.height or box[2] <= 0 or box[3] <= 0
    if apart or side > 2 * MARGIN * max(image.size):
        person.reject("bbox", [x, y, width, height], f"a box in the image, which has {image.size} pixels")
    scale = size / (box[2] - box[0])
    pixels: Pixels = np.asarray(image.crop(box).resize((size, size)), np.uint8).transpose(2, 0, 1)
    seen = points[:, 2:] > 0
    points[:, :2] = np.where(seen, (points[:, :2] + 0.5 - box[:2]) * scale, 0)  # in COCO, integers are pixel centres
    return pixels, points, np.float32(area * scale**2)


def coco_image(folder: Path, split: str, name: str, where: str) -> Path:
    """The file of an image: in the folder, or in the one of its split. Raises DataError where it is in none."""
    inside(folder, name, where)
    places = [folder / below for below in ("", split, f"{split}2017", "images")]
    for place in places:
        if (place / name).is_file():
            return inside(folder, name, where, below=place)
    raise DataError(f"{where}: {shown(name)}: no such image in {', '.join(map(str, places))}")
