"""COCO keypoints: a JSON file per split beside the images; each labelled person is cropped by its box."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.files import listing, names, read_bytes
from headway.data.image_decoding import Pixels, open_image
from headway.data.images import Progress
from headway.data.poses import Floats, Poses, PoseStore, digest
from headway.data.synthetic.stick_figures import KEYPOINTS
from headway.errors import DataError

SPLITS = ("train", "val", "test")
MARGIN = 1.25  # side of the crop over the longer side of a person's box


def load_coco(path: Path, size: int, progress: Progress) -> Poses:
    """A folder with `train.json` (or `person_keypoints_train2017.json`) and the images it names.

    Without a val split, the last tenth of train is used. Raises DataError naming the file and the problem.
    """
    files = {split: file for file in listing(path) for split in SPLITS if file.suffix == ".json" and split in file.stem}
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


def _read(file: Path, split: str, size: int, progress: Progress) -> PoseStore:
    try:
        tree = json.loads(read_bytes(file))
        where = {image["id"]: str(image["file_name"]) for image in tree["images"]}
        people = [each for each in tree["annotations"] if not each.get("iscrowd") and any(each["keypoints"][2::3])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file}: not COCO's keypoints ({type(error).__name__}: {error})") from None
    if not people:
        raise DataError(f"{file}: no person with a labelled keypoint, expected at least 1")
    made = []
    for number, person in enumerate(people, 1):
        made.append(_crop(file, split, number, person, where, size))
        progress(f"cutting {split}", number, len(people))
    pixels, keypoints, areas = (np.stack(part) for part in zip(*made, strict=True))
    return PoseStore(pixels, keypoints, areas)


def _crop(
    file: Path, split: str, number: int, person: Any, where: dict[Any, str], size: int
) -> tuple[Pixels, Floats, np.float32]:
    """A square crop (3, size, size) of a person with keypoints (K, 3) and area in its pixels, padded with black."""
    try:
        points = np.array(person["keypoints"], np.float32).reshape(len(KEYPOINTS), 3)
        x, y, width, height = map(float, person["bbox"])
        area, name = float(person["area"]), where[person["image_id"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file}: person {number}: {type(error).__name__}: {error}") from None
    side = MARGIN * max(width, height)
    if not side > 0 or not area > 0:
        raise DataError(f"{file}: person {number}: bbox {person['bbox']}, area {area}; expected both above 0")
    path = _image(file.parent, split, name)
    left, top = x + width / 2 - side / 2, y + height / 2 - side / 2
    box = (round(left), round(top), round(left + side), round(top + side))
    scale = size / max(box[2] - box[0], 1)
    image = open_image(read_bytes(path), str(path))
    if side > 2 * MARGIN * max(image.size):  # a wrong box could need more memory than there is
        raise DataError(f"{file}: person {number}: bbox {person['bbox']}, the image has {image.size} pixels")
    pixels: Pixels = np.asarray(image.crop(box).resize((size, size)), np.uint8).transpose(2, 0, 1)
    seen = points[:, 2:] > 0
    points[:, :2] = np.where(seen, (points[:, :2] + 0.5 - box[:2]) * scale, 0)  # in COCO, integers are pixel centres
    return pixels, points, np.float32(area * scale**2)


def _image(folder: Path, split: str, name: str) -> Path:
    places = [folder / below / name for below in ("", split, f"{split}2017", "images")]
    for place in places:
        if place.is_file():
            return place
    raise DataError(f"{name}: no such image in {', '.join(str(place.parent) for place in places)}")
