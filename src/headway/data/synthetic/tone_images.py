"""Spectrograms of the built-in sounds `tones`, by split."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.data.image_decoding import Pixels
from headway.data.images import FACTS, LABELS, PIXELS, Images, ImageStore, Progress, open_store
from headway.data.spectrograms import Spectrogram
from headway.data.synthetic.tones import KINDS, tones
from headway.data.token_store import fingerprint
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems

COUNTS = {"train": 5_000, "val": 1_000, "test": 1_000}
CHUNK = 250  # sounds generated at a time
VERSION = "1"  # of the generator; part of the cache key


def load_tones(size: int, sound: Spectrogram, folder: Path, progress: Progress) -> Images:
    """The built-in set as spectrograms by split, generated once and cached."""
    splits: dict[str, ImageStore] = {}
    contents: dict[str, str] = {}
    for number, (name, count) in enumerate(COUNTS.items()):
        kept = folder / f"tones-{name}-{fingerprint([VERSION, sound.rule, str(size), str(count)])}"
        if not kept.exists() or problems(kept):
            discard(kept)
            _make(kept, size, sound, name, progress)
        splits[name] = open_store(kept, size, channels=1)
        contents[name] = hashlib.sha256(splits[name].pixels.tobytes() + splits[name].labels.tobytes()).hexdigest()
        progress("making tones", number + 1, len(COUNTS))
    return Images(name="tones", classes=KINDS, splits=splits, contents=contents)


def _make(folder: Path, size: int, sound: Spectrogram, split: str, progress: Progress) -> None:
    pixels: list[Pixels] = []
    labels: list[NDArray[np.int64]] = []
    first = 100_000 * list(COUNTS).index(split)
    for at in range(0, COUNTS[split], CHUNK):
        drawn = tones(min(CHUNK, COUNTS[split] - at), seed=first + at, rate=sound.rate, seconds=sound.seconds)
        pixels.append(sound.pictures(drawn.waves, size))
        labels.append(drawn.labels)
        progress(f"making tones, {split}", at + len(drawn.labels), COUNTS[split])
    with commit_folder(folder, shared=True) as draft:
        draft.array(PIXELS, np.concatenate(pixels))
        draft.array(LABELS, np.concatenate(labels))
        draft.json(FACTS, {"bad": []})
