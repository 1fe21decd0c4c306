"""Images of objects with boxes by split: a memory-mapped store, and the built-in sets `shapes` and `figures`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headway.data.files import read_bytes
from headway.data.image_decoding import Pixels, open_image
from headway.data.images import Progress
from headway.data.synthetic.drawing import SHAPES
from headway.data.synthetic.scattered import Scattered, scattered_figures, scattered_shapes
from headway.errors import DataError
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems

Floats = NDArray[np.float32]
COUNTS = {"train": 12_000, "val": 1_000, "test": 1_000, "unseen": 1_000}  # of shapes
FIGURES = {"train": 6_000, "val": 1_000, "test": 1_000}
CHUNK = 500  # images generated at a time
VERSION = "1"  # of the generators; part of the cache key
LEAST = 32  # pixels a side of a generated image
GREY = 128  # of what a letterboxed image leaves free
PIXELS = "pixels.u8"
# The other files of a store, by field of BoxStore.
ARRAYS = {
    "scales": ("scales.f32", np.float32),
    "starts": ("starts.i64", np.int64),
    "boxes": ("boxes.f32", np.float32),
    "classes": ("classes.i64", np.int64),
    "areas": ("areas.f32", np.float32),
    "crowds": ("crowds.u8", np.uint8),
}


@dataclass(frozen=True, slots=True)
class BoxStore:
    """N images (N, 3, S, S) and their M objects, those of an image one after another.

    `scales` (N,) has the pixels of a stored image for each pixel of the original; `starts` (N + 1,) where the objects
    of each image begin; boxes (M, 4) are x, y, width, height in pixels of the original, areas (M,) in square pixels of
    it; classes (M,); crowds (M,) are 1 where a box is around many objects that are not told apart.
    """

    pixels: Pixels
    scales: Floats
    starts: NDArray[np.int64]
    boxes: Floats
    classes: NDArray[np.int64]
    areas: Floats
    crowds: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.scales)

    @property
    def objects(self) -> int:
        """How many objects there are, without crowds."""
        return int((self.crowds == 0).sum())

    @property
    def most(self) -> int:
        """The most objects of an image, without crowds."""
        counts = np.bincount(self.owners[self.crowds == 0], minlength=1)
        return int(counts.max(initial=0))

    @property
    def owners(self) -> NDArray[np.int64]:
        """The image of each object (M,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def targets(self, most: int) -> Floats:
        """The objects of each image (N, most, 5), without crowds: a box and its class; rows of padding have class -1.

        A box is its centre x and y, width and height as shares of the stored image's side.
        """
        made = np.zeros((len(self), most, 5), np.float32)
        made[:, :, 4] = -1
        single = np.flatnonzero(self.crowds == 0)
        owner = self.owners[single]
        place = np.arange(len(single)) - np.searchsorted(owner, owner)
        share = self.boxes[single] * (self.scales[owner] / self.pixels.shape[-1])[:, None]
        made[owner, place, :2] = share[:, :2] + share[:, 2:] / 2
        made[owner, place, 2:4] = share[:, 2:]
        made[owner, place, 4] = self.classes[single]
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxImages:
    """Images of objects with boxes by split, with the names of the classes; `contents` has a digest of each split."""

    classes: tuple[str, ...]
    splits: dict[str, BoxStore]
    contents: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxReading:
    """How such images are read."""

    size: int  # pixels a side
    cache: Path
    classes: tuple[str, ...] = ()  # of a finished run, in their order; (): those of the data
    to_train: bool = True  # False: for evaluation, nothing is held out


def letterboxed(data: bytes, where: str, size: int) -> tuple[Pixels, tuple[int, int], float]:
    """An image file as (3, size, size), its width and height, and the pixels of the former for each of its own.

    The longer side becomes `size`; the image lies at the top left, the rest is grey. Raises DataError for a file that
    is not a readable image.
    """
    image = open_image(data, where)
    scale = size / max(image.size)
    made = Image.new("RGB", (size, size), (GREY, GREY, GREY))
    small = (max(round(image.width * scale), 1), max(round(image.height * scale), 1))
    made.paste(image if small == image.size else image.resize(small, Image.Resampling.BICUBIC), (0, 0))
    pixels: Pixels = np.asarray(made, np.uint8).transpose(2, 0, 1)
    return pixels, image.size, scale


def read_pixels(path: Path) -> Pixels:
    """An image file as it is, (3, H, W). Raises DataError for a file that is not a readable image."""
    pixels: Pixels = np.asarray(open_image(read_bytes(path), str(path)), np.uint8).transpose(2, 0, 1)
    return pixels


def load_scattered_shapes(reading: BoxReading, progress: Progress) -> BoxImages:
    """The built-in set of up to five shapes in an image, with a split of held-out combinations of shape and colour."""

    def draw(split: str, count: int, seed: int) -> Scattered:
        return scattered_shapes(count, size=reading.size, seed=seed, unseen=split == "unseen")

    return _generated("shapes", SHAPES, COUNTS, draw, reading, progress)


def load_scattered_figures(reading: BoxReading, progress: Progress) -> BoxImages:
    """The built-in set of up to three people in an image."""

    def draw(split: str, count: int, seed: int) -> Scattered:
        return scattered_figures(count, size=reading.size, seed=seed)

    return _generated("figures", ("person",), FIGURES, draw, reading, progress)


def _generated(
    name: str,
    classes: tuple[str, ...],
    counts: dict[str, int],
    draw: Callable[[str, int, int], Scattered],
    reading: BoxReading,
    progress: Progress,
) -> BoxImages:
    """A set, generated once and cached. Raises DataError for a size below 32."""
    if reading.size < LEAST:
        raise DataError(f"{name} at {reading.size} pixels, allowed: {LEAST} and above")
    splits: dict[str, BoxStore] = {}
    for number, (split, count) in enumerate(counts.items()):
        folder = reading.cache / f"boxes-{name}-{VERSION}-{reading.size}-{split}"
        if not folder.exists() or problems(folder):
            discard(folder)
            parts = []
            for at in range(0, count, CHUNK):
                # Each chunk has its own seed, so that a larger set begins with the smaller one.
                parts.append(draw(split, min(CHUNK, count - at), 100_000 * number + at))
                progress(f"drawing {name}", min(at + CHUNK, count), count)
            write_store(folder, *_stored(parts))
        splits[split] = open_boxes(folder, reading.size)
    if reading.classes not in ((), classes):
        raise DataError(f"{name} has the classes {', '.join(classes)}; the run knows {', '.join(reading.classes)}")
    return BoxImages(classes=classes, splits=splits, contents={key: digest(each) for key, each in splits.items()})


def _stored(parts: list[Scattered]) -> tuple[Iterator[bytes], dict[str, NDArray[np.generic]]]:
    """Generated images as what a store is written from."""
    corners, classes = (np.concatenate([getattr(part, name) for part in parts]) for name in ("boxes", "classes"))
    there = classes >= 0
    chosen = corners[there]
    boxes = np.concatenate([chosen[:, :2], chosen[:, 2:] - chosen[:, :2]], 1)
    arrays: dict[str, NDArray[np.generic]] = {
        "scales": np.ones(len(classes), np.float32),
        "starts": np.concatenate([[0], np.cumsum(there.sum(1))]),
        "boxes": boxes,
        "classes": classes[there],
        "areas": boxes[:, 2] * boxes[:, 3],
        "crowds": np.zeros(len(boxes), np.uint8),
    }
    return (part.pixels.tobytes() for part in parts), arrays


def write_store(folder: Path, pixels: Iterator[bytes], arrays: dict[str, NDArray[np.generic]]) -> None:
    """Write a store: pixels in pieces, which may fill `arrays` (by field of BoxStore) meanwhile."""
    with commit_folder(folder, shared=True) as draft:
        draft.pieces(PIXELS, pixels)
        for name, (file, dtype) in ARRAYS.items():
            draft.array(file, np.asarray(arrays[name], dtype))


def open_boxes(folder: Path, size: int) -> BoxStore:
    """Open an existing store."""
    found = {name: np.fromfile(folder / file, dtype) for name, (file, dtype) in ARRAYS.items()}
    count = len(found["scales"])
    shape = (count, 3, size, size)
    pixels = np.memmap(folder / PIXELS, np.uint8, "r", shape=shape) if count else np.zeros(shape, np.uint8)
    return BoxStore(
        pixels,
        found["scales"],
        found["starts"],
        found["boxes"].reshape(-1, 4),
        found["classes"],
        found["areas"],
        found["crowds"],
    )


def digest(store: BoxStore) -> str:
    """The digest of images and boxes."""
    whole = hashlib.sha256(store.pixels.tobytes())
    for each in (store.scales, store.starts, store.boxes, store.classes, store.areas, store.crowds):
        whole.update(each.tobytes())
    return whole.hexdigest()
