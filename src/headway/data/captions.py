"""Images with captions by split: generated, or read from files and decoded once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.data.annotated_files import check_annotated
from headway.data.caption_files import find_captions
from headway.data.image_decoding import RULE, Pixels
from headway.data.image_files import ClassFolders
from headway.data.images import FACTS, LABELS, PIXELS, ImageReading, Progress, open_store, store_images
from headway.data.synthetic import shapes
from headway.data.token_store import fingerprint
from headway.documents import read_json
from headway.errors import DataError
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems

TEXTS = "captions.json"
Sentences = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaptionedImages:
    """Decoded images (N, 3, H, W) and the captions of each."""

    pixels: Pixels
    captions: tuple[Sentences, ...]

    def __len__(self) -> int:
        return len(self.captions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionDataset:
    """Images with captions by split; `contents` has a digest of each split."""

    name: str
    splits: dict[str, CaptionedImages]
    contents: dict[str, str]
    left_out: int = 0  # missing or bad images


def load_shape_captions(size: int, cache: Path, progress: Progress) -> CaptionDataset:
    """The built-in scenes of two shapes, generated once and cached. Raises DataError for a size below 16."""
    if size < 16:
        raise DataError(f"shapes at {size} pixels, allowed: 16 and above")
    splits: dict[str, CaptionedImages] = {}
    contents: dict[str, str] = {}
    for number, (name, count) in enumerate(shapes.COUNTS.items()):
        folder = cache / f"shape-captions-{shapes.VERSION}-{size}-{name}"
        if not folder.exists() or problems(folder):
            discard(folder)
            _draw(folder, number, count, size, unseen=name == "unseen")
        progress("drawing shapes", number + 1, len(shapes.COUNTS))
        texts = read_json(folder / TEXTS, most="document-bytes")
        splits[name] = CaptionedImages(open_store(folder, size).pixels, tuple((text,) for text in texts))
        contents[name] = _digest((pixels.tobytes() for pixels in splits[name].pixels), splits[name].captions)
    return CaptionDataset(name="shapes", splits=splits, contents=contents)


def _draw(folder: Path, split: int, count: int, size: int, *, unseen: bool) -> None:
    """Write a split, generated in chunks with a seed each: all at once would be gigabytes of floats."""
    texts: list[str] = []

    def chunks() -> Iterator[bytes]:
        for at in range(0, count, shapes.CHUNK):
            chunk = min(shapes.CHUNK, count - at)
            pixels, captions = shapes.captions(chunk, size=size, seed=1000 * split + at // shapes.CHUNK, unseen=unseen)
            texts.extend(captions)
            yield pixels.tobytes()

    with commit_folder(folder, shared=True) as draft:
        draft.pieces(PIXELS, chunks())
        draft.array(LABELS, np.arange(count, dtype=np.int64))
        draft.json(TEXTS, texts)
        draft.json(FACTS, {"bad": []})


def load_captions(path: Path, reading: ImageReading, progress: Progress) -> CaptionDataset:
    """The images and captions at a path, checked and decoded. Raises DataError naming the first problem."""
    images = check_annotated(path, find_captions(path), "image", reading)
    splits: dict[str, CaptionedImages] = {}
    contents: dict[str, str] = {}
    wrong: list[str] = []
    for name, those in images.splits.items():
        if not those:
            raise DataError(f"{path}: split {name} has no images, expected at least 1")
        contents[name] = _digest(images.digests[name], [each.captions for each in those])
        folder = reading.cache / f"captioned-{fingerprint([contents[name], str(reading.size), RULE])}"
        pictures = ClassFolders(tuple((each.file, row) for row, each in enumerate(those)))
        store, bad = store_images(folder, pictures, reading, f"decoding {name}", progress)
        wrong += bad
        splits[name] = CaptionedImages(store.pixels, tuple(those[row].captions for row in store.labels))
    left_out = images.count_left_out(splits, wrong)
    return CaptionDataset(name=str(path), splits=splits, contents=contents, left_out=left_out)


def _digest(images: Iterable[bytes], captions: Iterable[Sentences]) -> str:
    whole = hashlib.sha256()
    for image, texts in zip(images, captions, strict=True):
        whole.update(hashlib.sha256(image).digest() + "\0".join((*texts, "")).encode())
    return whole.hexdigest()
