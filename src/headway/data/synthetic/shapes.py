"""`shapes`: generated scenes of coloured shapes with classes and captions, and held-out combinations of words.

Every set is a function of its seed. One colour of each shape, and one shape of each colour, occurs only in the split
`unseen`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.data.image_decoding import Pixels
from headway.data.images import FACTS, LABELS, PIXELS, Images, ImageStore, Progress, open_store
from headway.data.synthetic.drawing import SHAPES, Floats, Numbers, Objects, backgrounds, finished, paint
from headway.errors import DataError
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems

COLOURS = {
    "red": (0.85, 0.10, 0.10),
    "orange": (0.95, 0.55, 0.05),
    "yellow": (0.95, 0.92, 0.15),
    "green": (0.10, 0.65, 0.15),
    "cyan": (0.10, 0.80, 0.85),
    "blue": (0.10, 0.20, 0.85),
    "purple": (0.50, 0.10, 0.65),
    "pink": (0.98, 0.55, 0.75),
}
NAMES = tuple(COLOURS)
_PALETTE = np.array(list(COLOURS.values()), np.float32)
RELATIONS = ("left of", "right of", "above", "below")
COUNTS = {"train": 20_000, "val": 2_000, "test": 2_000, "unseen": 2_000}
CHUNK = 1_000  # scenes generated at a time
VERSION = "1"  # of the generator; part of the cache key
BELOW, ABOVE = 2, 1  # small objects in a scene, behind the main one and in front of it


@dataclass(frozen=True, slots=True)
class Scenes:
    """Images (N, 3, S, S), and the indices of shape and colour of the main object (N,)."""

    pixels: Pixels
    shapes: Numbers
    colours: Numbers


def is_unseen(shapes: Numbers, colours: Numbers) -> NDArray[np.bool_]:
    """Whether a combination of shape and colour is held out from train."""
    unseen: NDArray[np.bool_] = colours == (3 * shapes + 1) % len(COLOURS)
    return unseen


def scenes(count: int, *, size: int, seed: int, unseen: bool = False) -> Scenes:
    """Scenes of one large object with small ones around; with `unseen`, in held-out combinations only."""
    random = np.random.default_rng([seed, unseen])
    parts = [_chunk(random, min(CHUNK, count - at), size, unseen) for at in range(0, count, CHUNK)]
    return Scenes(
        np.concatenate([part.pixels for part in parts]),
        np.concatenate([part.shapes for part in parts]),
        np.concatenate([part.colours for part in parts]),
    )


def _chunk(random: np.random.Generator, count: int, size: int, unseen: bool) -> Scenes:
    shape, colour = _kinds(random, count, unseen)
    radius = random.uniform(0.26, 0.42, count)
    x, y = (random.uniform(0.41, 0.59, count) for _ in range(2))
    main = Objects(shape, x, y, radius, random.uniform(0, 2 * np.pi, count), _tints(random, colour))
    pictures = backgrounds(random, count, size, apart_from=main.colour)
    for number in range(BELOW + 1 + ABOVE):
        paint(pictures, main if number == BELOW else _clutter(random, count))
    return Scenes(finished(random, pictures, 0.06), shape, colour)


def _kinds(random: np.random.Generator, count: int, unseen: bool) -> tuple[Numbers, Numbers]:
    """Shapes and colours (N,), each pair that is allowed equally often."""
    allowed = np.argwhere(is_unseen(*np.indices((len(SHAPES), len(COLOURS)))) == unseen)
    drawn = allowed[random.integers(0, len(allowed), count)]
    return drawn[:, 0], drawn[:, 1]


def shape_colours(random: np.random.Generator, count: int, unseen: bool) -> tuple[Numbers, Floats]:
    """Shapes (N,) and their colours (N, 3), of combinations that are held out (`unseen`) or not."""
    shape, colour = _kinds(random, count, unseen)
    return shape, _tints(random, colour)


def _tints(random: np.random.Generator, colours: Numbers) -> Floats:
    """The colours of these indices (N, 3), with some variation."""
    tints = _PALETTE[colours] + random.uniform(-0.07, 0.07, (len(colours), 3))
    return np.clip(tints, 0, 1).astype(np.float32)


def _clutter(random: np.random.Generator, count: int) -> Objects:
    return Objects(
        random.integers(0, len(SHAPES), count),
        random.uniform(0, 1, count),
        random.uniform(0, 1, count),
        random.uniform(0.05, 0.085, count),
        random.uniform(0, 2 * np.pi, count),
        _tints(random, random.integers(0, len(COLOURS), count)),
    )


def captions(count: int, *, size: int, seed: int, unseen: bool = False) -> tuple[Pixels, list[str]]:
    """Images of two objects side by side or one above the other, and a caption of each.

    The larger object is named first, so that the caption is unique. With `unseen` it is a held-out combination.
    """
    random = np.random.default_rng([seed, 2 + unseen])
    relation = random.integers(0, len(RELATIONS), count)
    radius = random.uniform(0.17, 0.22, count), random.uniform(0.1, 0.14, count)
    pairs = [_kinds(random, count, unseen), _kinds(random, count, False)]
    near, far = random.uniform(0.2, 0.28, count), random.uniform(0.72, 0.8, count)
    across = random.uniform(0.3, 0.7, count) + random.uniform(-0.08, 0.08, (2, count))
    first = np.where(relation % 2 == 0, near, far)  # left of, above: the first object comes first
    pictures = backgrounds(random, count, size)
    for n, (shape, colour) in enumerate(pairs):
        along = first if n == 0 else near + far - first
        x, y = np.where(relation < 2, along, across[n]), np.where(relation < 2, across[n], along)
        paint(
            pictures,
            Objects(shape, x, y, radius[n], random.uniform(0, 2 * np.pi, count), _tints(random, colour)),
        )
    texts = [
        f"{_named(shape, colour)} {RELATIONS[how]} {_named(other, tint)}"
        for shape, colour, how, other, tint in zip(*pairs[0], relation, *pairs[1], strict=True)
    ]
    return finished(random, pictures, 0.08), texts


def _named(shape: int, colour: int) -> str:
    article = "an" if NAMES[colour][0] in "aeiou" else "a"
    return f"{article} {NAMES[colour]} {SHAPES[shape]}"


def load_shapes(size: int, cache: Path, progress: Progress) -> Images:
    """The built-in set as images by split, generated once and cached. Raises DataError for a size below 16."""
    if size < 16:
        raise DataError(f"shapes at {size} pixels, allowed: 16 and above")
    splits: dict[str, ImageStore] = {}
    contents: dict[str, str] = {}
    for seed, (name, count) in enumerate(COUNTS.items()):
        folder = cache / f"shapes-{VERSION}-{size}-{name}"
        if not folder.exists() or problems(folder):
            discard(folder)
            drawn = scenes(count, size=size, seed=seed, unseen=name == "unseen")
            with commit_folder(folder, shared=True) as draft:
                draft.array(PIXELS, drawn.pixels)
                draft.array(LABELS, drawn.shapes.astype(np.int64))
                draft.json(FACTS, {"bad": []})
        progress("drawing shapes", seed + 1, len(COUNTS))
        splits[name] = open_store(folder, size)
        contents[name] = hashlib.sha256(b"".join(_bytes(splits[name]))).hexdigest()
    return Images(name="shapes", classes=SHAPES, splits=splits, contents=contents)


def _bytes(store: ImageStore) -> Iterator[bytes]:
    yield store.pixels.tobytes()
    yield store.labels.tobytes()
