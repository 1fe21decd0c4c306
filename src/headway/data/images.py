"""Labelled images by split: checked, decoded once into a memory-mapped store, with a tenth held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.counts import counted
from headway.data import image_decoding, spectrograms
from headway.data.files import listed
from headway.data.image_decoding import RULE, EncodedImage, Pixels, decode_each
from headway.data.image_files import Split, find_splits
from headway.data.other_files import unread_images
from headway.data.spectrograms import Spectrogram
from headway.data.token_store import fingerprint
from headway.documents import read_json
from headway.errors import DataError, shown
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems

Labels = NDArray[np.int64]
Progress = Callable[[str, int, int], None]  # (description, done, total)
NAMED = 20  # bad files that a store names
PIXELS, LABELS, FACTS = "pixels.u8", "labels.i64", "facts.json"


@dataclass(frozen=True, slots=True)
class ImageStore:
    """Decoded images (N, C, H, W) and their classes (N,)."""

    pixels: Pixels
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Images by split with the names of their classes; `contents` has a digest of each split."""

    name: str
    classes: tuple[str, ...]
    splits: dict[str, ImageStore]
    contents: dict[str, str]
    left_out: tuple[str, ...] = ()  # of each bad image, what is wrong with it
    unread: str = ""  # files of other formats, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReading:
    """How images are read: size, classes if known, the split to validate on, and whether to skip bad files."""

    size: int
    classes: tuple[str, ...] = ()
    val: str = ""
    skip_bad: bool = False
    to_train: bool = True  # False: for evaluation, nothing is held out, and a class may have no image
    cache: Path
    sound: Spectrogram | None = None  # the files are sounds, read as spectrograms of one channel

    @property
    def channels(self) -> int:
        """Channels of the images."""
        return 3 if self.sound is None else 1


@dataclass(frozen=True, slots=True)
class _Scanned:
    """The digest and class of each image of a split."""

    digests: list[bytes]
    labels: Labels

    def digest(self, classes: tuple[str, ...]) -> str:
        whole = hashlib.sha256("\0".join(classes).encode())
        for digest, label in zip(self.digests, self.labels, strict=True):
            whole.update(digest + int(label).to_bytes(8, "little", signed=True))
        return whole.hexdigest()


@dataclass(frozen=True, slots=True)
class _Subset:
    """A subset of a split."""

    split: Split
    chosen: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.chosen.sum())

    def __iter__(self) -> Iterator[EncodedImage]:
        return (image for image, chosen in zip(self.split, self.chosen, strict=True) if chosen)


def load_images(path: Path, reading: ImageReading, progress: Progress = lambda what, done, total: None) -> Images:
    """The images at a path, checked and decoded. Raises DataError naming the first problem."""
    endings = image_decoding.ENDINGS if reading.sound is None else spectrograms.ENDINGS
    splits, classes = find_splits(path, reading.classes, endings)
    splits = {name: splits[name] for name in sorted(splits, key=lambda name: (name != "train", name))}
    if "train" not in splits:
        raise DataError(f"{path}: no train split; splits: {listed(tuple(splits))}")
    known = {name: _scan(f"reading {name}", split, progress) for name, split in splits.items()}
    classes = classes or _counted(path, known["train"].labels)
    for name, found in known.items():
        _expect_labels(path, splits[name], name, found.labels, classes)
    if reading.to_train:
        _expect_enough(path, known["train"].labels, classes, least=2)
    if reading.val:
        if reading.val not in splits:
            raise DataError(f"{path}: data.val={shown(reading.val)}, splits: {listed(tuple(splits))}")
        splits["val"], known["val"] = splits[reading.val], known[reading.val]
    elif "val" not in splits and reading.to_train:
        held = held_out(known["train"].digests, known["train"].labels)
        whole, all_known = splits["train"], known["train"]
        for name, chosen in (("train", ~held), ("val", held)):
            splits[name] = _Subset(whole, chosen)
            digests = [digest for digest, each in zip(all_known.digests, chosen, strict=True) if each]
            known[name] = _Scanned(digests, all_known.labels[chosen])
    contents = {name: found.digest(classes) for name, found in known.items()}
    stores: dict[str, ImageStore] = {}
    bad: dict[str, list[str]] = {}
    for name, split in splits.items():
        rule = RULE if reading.sound is None else reading.sound.rule
        folder = reading.cache / f"images-{fingerprint([contents[name], str(reading.size), rule])}"
        stores[name], bad[name] = store_images(folder, split, reading, f"decoding {name}", progress)
    wrong = [each for found in bad.values() for each in found]
    if wrong and not reading.skip_bad:
        total = sum(map(len, splits.values()))
        raise DataError(f"{wrong[0]}; {len(wrong):,} of {total:,} are bad; pass --data.skip_bad true to skip them")
    if reading.to_train:
        _expect_enough(path, stores["train"].labels, classes)
    unread = unread_images(path) if reading.sound is None and path.is_dir() else ""
    return Images(
        name=str(path), classes=classes, splits=stores, contents=contents, left_out=tuple(wrong), unread=unread
    )


def held_out(digests: list[bytes], labels: Labels) -> NDArray[np.bool_]:
    """The mask of images held out for val: a tenth of each class by smallest digest, so that copies stay together."""
    held = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        rows = sorted(np.flatnonzero(labels == label), key=lambda row: digests[row])
        count = max(len(rows) // 10, 1)
        same = [row for row in rows if digests[row] <= digests[rows[count - 1]]]
        held[same if len(same) < len(rows) else rows[:count]] = True
    return held


def class_subset(store: ImageStore, share: float) -> ImageStore:
    """A fraction of each class, at least one image each: the first ones of a fixed permutation."""
    order = np.random.default_rng(0).permutation(len(store))
    chosen = np.zeros(len(store), bool)
    for label in np.unique(store.labels):
        rows = order[store.labels[order] == label]
        chosen[rows[: max(round(share * len(rows)), 1)]] = True
    return ImageStore(store.pixels[chosen], store.labels[chosen])


def _scan(what: str, split: Split, progress: Progress) -> _Scanned:
    digests, labels, total = [], [], len(split)
    for image in split:
        digests.append(hashlib.sha256(image.data).digest())
        labels.append(image.label)
        progress(what, len(labels), total)
    return _Scanned(digests, np.asarray(labels, np.int64))


def _counted(path: Path, labels: Labels) -> tuple[str, ...]:
    """Class names for labels 0 … n - 1, all of which must occur."""
    found = np.unique(labels)
    most = len(found) - 1
    if len(found) and (found[0] != 0 or found[-1] != most):
        wrong = next(int(label) for label in found if not 0 <= label <= most)
        count = counted(len(found), "class", "classes")
        raise DataError(f"{path}: {count} without names, one of them {wrong}; expected 0 to {most}")
    return tuple(map(str, found))


def _expect_labels(path: Path, split: Split, name: str, labels: Labels, classes: tuple[str, ...]) -> None:
    if not len(labels):
        raise DataError(f"{path}: split {name} has no images, expected at least 1")
    wrong = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if len(wrong):
        row = int(wrong[0])
        where = next(image.where for n, image in enumerate(split) if n == row)
        raise DataError(f"{where}: label {labels[row]}, allowed: 0 to {len(classes) - 1}")


def _expect_enough(path: Path, labels: Labels, classes: tuple[str, ...], least: int = 1) -> None:
    """Raise DataError for a training set of one class, or a class with fewer than `least` images."""
    if len(classes) < 2:
        raise DataError(f"{path}: {len(classes)} class ({listed(classes)}), expected at least 2")
    for number, count in enumerate(np.bincount(labels, minlength=len(classes))):
        if count < least:
            name = shown(classes[number])
            raise DataError(f"{path}: class {name} has {count} image in train, expected at least {least}")


def store_images(
    folder: Path, split: Iterable[EncodedImage], reading: ImageReading, what: str, progress: Progress
) -> tuple[ImageStore, list[str]]:
    """The store in this folder, created if necessary, and the errors of images that are not in it."""
    if not folder.exists() or problems(folder):
        discard(folder)
        with commit_folder(folder, shared=True) as draft:
            labels: list[int] = []
            bad: list[str] = []
            total = len(split)  # type: ignore[arg-type]

            def pixels_of_each() -> Iterator[bytes]:
                how = None if reading.sound is None else reading.sound.decode
                for image, pixels in decode_each(split, reading.size, how):
                    if isinstance(pixels, DataError):
                        bad.append(str(pixels))
                    else:
                        labels.append(image.label)
                        yield pixels.tobytes()
                    progress(what, len(labels) + len(bad), total)

            draft.pieces(PIXELS, pixels_of_each())
            draft.array(LABELS, np.asarray(labels, np.int64))
            draft.json(FACTS, {"bad": [*bad[:NAMED], *["another"] * (len(bad) - NAMED)]})
    wrong = read_json(folder / FACTS, most="document-bytes")["bad"]
    return open_store(folder, reading.size, reading.channels), wrong


def open_store(folder: Path, size: int, channels: int = 3) -> ImageStore:
    """Open an existing store."""
    labels = np.fromfile(folder / LABELS, np.int64)
    if not len(labels):
        return ImageStore(np.zeros((0, channels, size, size), np.uint8), labels)
    return ImageStore(np.memmap(folder / PIXELS, np.uint8, "r", shape=(len(labels), channels, size, size)), labels)
