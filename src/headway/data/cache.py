"""The cache (`data.cache`): what its entries are, and their removal. Every entry can be made again from the data."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.storage.commit import discard, remove_stale_drafts
from headway.storage.manifest import MANIFEST
from headway.storage.targets import DRAFT

# What an entry is, by the beginning of its name. Who writes to the cache has a line here (tests/data/test_cache.py).
KINDS = {
    "text": "tokenised text of a language model",
    "lines": "tokenised sentences of parallel text",
    "sentences": "tokenised sentences of a masked model",
    "texts": "tokenised texts with classes",
    "pairs": "tokenised pairs of texts of a sentence encoder",
    "images": "decoded images or spectrograms",
    "captioned": "decoded images with captions",
    "shapes": "generated images of shapes",
    "shape-captions": "generated images of shapes with captions",
    "figures": "generated stick figures",
    "boxes": "images with the boxes of their objects",
    "tones": "generated sounds as spectrograms",
    "index": "vectors of passages that are searched",
    "part": "vectors of an index that is being built",
    "speech": "frames of sounds with texts",
    "spoken-digits": "generated spoken digits as frames",
    "chat": "tokenised conversations",
    "baseline": "Q-learning beside a world model",
}
UNFINISHED = "an unfinished write"
UNKNOWN = "not written by headway; never removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """A folder of the cache."""

    name: str
    what: str
    bytes: int
    age: float  # seconds since it was written
    removable: bool


def cache_entries(cache: Path) -> list[CacheEntry]:
    """What the cache holds, the largest first; [] without a cache folder. Reads only."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in cache.iterdir():
            what = _what(path)
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                age = max(0.0, time.time() - path.lstat().st_mtime)
                known = what not in (UNKNOWN, UNFINISHED)
                found.append(CacheEntry(name=path.name, what=what, bytes=sum(_sizes(path)), age=age, removable=known))
    return sorted(found, key=lambda entry: (-entry.bytes, entry.name))


def clean_cache(cache: Path) -> list[CacheEntry]:
    """Remove what headway wrote to the cache, and writes that no process is at -> what was removed.

    A training that runs keeps what it has mapped; one that is just preparing its data may have to be started again.
    Raises StorageError.
    """
    before = cache_entries(cache)
    for entry in before:
        path = cache / entry.name
        if entry.removable:
            discard(path)
        elif entry.what == UNFINISHED:
            remove_stale_drafts(cache, entry.name[len(DRAFT) + 8 :])
    return [entry for entry in before if not os.path.lexists(cache / entry.name)]


def _what(path: Path) -> str:
    """What an entry is: known by its name and its manifest."""
    if path.name.startswith(DRAFT):
        return UNFINISHED
    kinds = sorted(KINDS, key=len, reverse=True)  # "shape-captions" before "shapes"
    kind = next((kind for kind in kinds if re.match(rf"{kind}-", path.name)), None)
    committed = path.is_dir() and not path.is_symlink() and (path / MANIFEST).is_file()
    return KINDS[kind] if kind is not None and committed else UNKNOWN


def _sizes(path: Path) -> Iterator[int]:
    if path.is_symlink() or not path.is_dir():
        yield path.lstat().st_size
        return
    for parent, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                yield (Path(parent) / name).lstat().st_size
