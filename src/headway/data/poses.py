"""Images of people with keypoints by split, and the built-in set `figures`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.data.image_decoding import Pixels
from headway.data.images import Progress
from headway.data.synthetic.stick_figures import figures
from headway.errors import DataError
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
COUNTS = {"train": 6_000, "val": 1_000, "test": 1_000}
CHUNK = 500  # figures generated at a time
VERSION = "1"  # of the generator; part of the cache key
PIXELS, KEYPOINTS, AREAS = "pixels.u8", "keypoints.f32", "areas.f32"


@dataclass(frozen=True, slots=True)
class PoseStore:
    """Images (N, 3, S, S), keypoints (N, 17, 3) as x, y in pixels and visibility, and areas (N,) in square pixels."""

    pixels: Pixels
    keypoints: Floats
    areas: Floats

    def __len__(self) -> int:
        return len(self.areas)

    @property
    def boxes(self) -> Floats:
        """The boxes around the labelled keypoints (N, 4) as x, y, width, height."""
        seen = self.keypoints[:, :, 2:] > 0
        low = np.where(seen, self.keypoints[:, :, :2], np.inf).min(1)
        high = np.where(seen, self.keypoints[:, :, :2], -np.inf).max(1)
        some = seen.any(1)
        return np.where(some, np.concatenate([low, high - low], 1), 0).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Poses:
    """People by split; `contents` has a digest of each."""

    splits: dict[str, PoseStore]
    contents: dict[str, str]


def load_figures(size: int, cache: Path, progress: Progress) -> Poses:
    """The built-in set, generated once and cached. Raises DataError for a size below 32."""
    if size < 32:
        raise DataError(f"figures at {size} pixels, allowed: 32 and above")
    splits: dict[str, PoseStore] = {}
    for number, (name, count) in enumerate(COUNTS.items()):
        folder = cache / f"figures-{VERSION}-{size}-{name}"
        if not folder.exists() or problems(folder):
            discard(folder)
            _draw(folder, size, count, number, progress)
        splits[name] = _opened(folder, size)
    return Poses(splits=splits, contents={name: digest(store) for name, store in splits.items()})


def _draw(folder: Path, size: int, count: int, number: int, progress: Progress) -> None:
    parts = []
    for at in range(0, count, CHUNK):
        # Each chunk has its own seed, so that a larger set begins with the smaller one.
        parts.append(figures(min(CHUNK, count - at), size=size, seed=100_000 * number + at))
        progress("drawing figures", at + len(parts[-1].areas), count)
    with commit_folder(folder, shared=True) as draft:
        draft.array(PIXELS, np.concatenate([part.pixels for part in parts]))
        draft.array(KEYPOINTS, np.concatenate([part.keypoints for part in parts]))
        draft.array(AREAS, np.concatenate([part.areas for part in parts]))


def _opened(folder: Path, size: int) -> PoseStore:
    areas = np.fromfile(folder / AREAS, np.float32)
    keypoints = np.fromfile(folder / KEYPOINTS, np.float32).reshape(len(areas), -1, 3)
    pixels = np.memmap(folder / PIXELS, np.uint8, "r", shape=(len(areas), 3, size, size))
    return PoseStore(pixels, keypoints, areas)


def digest(store: PoseStore) -> str:
    """The digest of images and keypoints."""
    whole = hashlib.sha256(store.pixels.tobytes())
    whole.update(store.keypoints.tobytes())
    return whole.hexdigest()
