"""Manifests: the size and SHA-256 of every file of a committed folder, and what the folder is.

The manifest of a checkpoint also names its run and its step, so that one checkpoint cannot stand in for another.
A manifest holds checksums, not signatures: it shows damage and mistakes, not forgery.

This module must not import torch: a command verifies the checksums of what it will load on a thread while torch is
being imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "MANIFEST.json"
INT8 = "int8"  # the folder of a run that holds its 8-bit copy
# Larger files are hashed in blocks of this size, by several threads: one thread hashes more slowly than memory is read.
# Between two blocks a thread waits for the GIL, up to 5 ms.
BLOCK = 2**23
MAX_MANIFEST = 16_000_000  # bytes: a checkpoint has few files, a cache of images one more for each shard
WHOLE, BLOCKS = "sha256", "sha256_of_blocks"

Fingerprint = dict[str, Any]  # size, and WHOLE or BLOCKS


class DamagedError(Exception):
    """Something committed is not what its manifest says; the message says what, without the folder's name."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says: its files, and the facts about the folder, such as a checkpoint's run and step."""

    files: Mapping[str, Fingerprint]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The manifest as the text of its file, with its own checksum."""
        return json_text({"files": self.files, **self.facts, "sha256": self.digest})

    @property
    def digest(self) -> str:
        """The checksum of the manifest, without facts that of `files` alone."""
        content = {"files": self.files, **self.facts} if self.facts else self.files
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def json_text(value: Any) -> str:
    """A value as the text of a JSON file."""
    return json.dumps(value, indent=2) + "\n"


def fingerprint(path: Path) -> Fingerprint:
    """The size and checksum of a file."""
    size = path.stat().st_size
    key = WHOLE if size <= BLOCK else BLOCKS
    return {"size": size, key: _digest(path, key)}


def data_fingerprint(data: bytes) -> Fingerprint:
    """The same of bytes that are a small file, read already."""
    return {"size": len(data), WHOLE: hashlib.sha256(data).hexdigest()}


class StreamFingerprint:
    """The fingerprint of a file that is written chunk by chunk."""

    def __init__(self) -> None:
        self.size, self.whole, self.blocks = 0, hashlib.sha256(), bytearray()
        self._block = hashlib.sha256()

    def update(self, chunk: memoryview) -> None:
        """Take the next bytes."""
        while chunk:
            part, chunk = chunk[: BLOCK - self.size % BLOCK], chunk[BLOCK - self.size % BLOCK :]
            if self.size < BLOCK:
                self.whole.update(part)
            self._block.update(part)
            self.size += len(part)
            if self.size % BLOCK == 0:
                self.blocks += self._block.digest()
                self._block = hashlib.sha256()

    def result(self) -> Fingerprint:
        """The fingerprint of all of them."""
        if self.size <= BLOCK:
            return {"size": self.size, WHOLE: self.whole.hexdigest()}
        rest = self._block.digest() if self.size % BLOCK else b""
        return {"size": self.size, BLOCKS: hashlib.sha256(bytes(self.blocks) + rest).hexdigest()}


def _digest(path: Path, key: str) -> str:
    """The checksum of a file: of the whole, or of the checksums of its blocks."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if key == WHOLE:
            digest, room = hashlib.sha256(), memoryview(bytearray(min(BLOCK, size + 1)))
            while count := file.readinto(room):
                digest.update(room[:count])
            return digest.hexdigest()
        threads = min(4, os.cpu_count() or 1)
        rooms = [memoryview(bytearray(BLOCK)) for _ in range(threads)]

        def hashed(thread: int) -> list[bytes]:
            room, found = rooms[thread], []
            for begin in range(thread * BLOCK, size, threads * BLOCK):
                at = 0
                while at < BLOCK and (count := os.preadv(file.fileno(), [room[at:]], begin + at)):
                    at += count
                found.append(hashlib.sha256(room[:at]).digest())
            return found

        with ThreadPoolExecutor(threads) as pool:
            by_thread = list(pool.map(hashed, range(threads)))
    blocks = (by_thread[n % threads][n // threads] for n in range(-(-size // BLOCK)))
    return hashlib.sha256(b"".join(blocks)).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, checked against its own checksum. Raises DamagedError."""
    for path in (folder, folder / MANIFEST):
        if path.is_symlink():
            raise DamagedError(f"{path.name} is a link")
    if os.path.lexists(folder / MANIFEST) and not (folder / MANIFEST).is_file():
        raise DamagedError(f"{MANIFEST} is not a regular file")
    try:
        with (folder / MANIFEST).open("rb") as file:
            data = file.read(MAX_MANIFEST + 1)
        found = json.loads(data)
        files, digest = found.pop("files"), found.pop("sha256")
        manifest = Manifest(files, found)
        sound = (
            digest == manifest.digest and data == manifest.text().encode() and all(map(_is_fingerprint, files.values()))
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{MANIFEST} cannot be read ({type(error).__name__})") from error
    if not sound:
        raise DamagedError(f"{MANIFEST} does not match its own checksum")
    return manifest


def _is_fingerprint(value: Any) -> bool:
    return isinstance(value, dict) and (WHOLE in value or BLOCKS in value)


def check_file(path: Path, expected: Fingerprint) -> None:
    """Raise DamagedError unless a file is as its fingerprint says."""
    try:
        if path.is_symlink() or not path.is_file():
            raise DamagedError(f"{path.name} is {'not a regular file' if os.path.lexists(path) else 'missing'}")
        key = WHOLE if WHOLE in expected else BLOCKS
        if path.stat().st_size != expected.get("size") or _digest(path, key) != expected[key]:
            raise DamagedError(f"{path.name} is damaged")
    except OSError as error:
        raise DamagedError(f"{path.name} cannot be read ({error.strerror or type(error).__name__})") from error


def problems(folder: Path, names: Iterable[str] | None = None) -> list[str]:
    """What is wrong with a committed folder: each file missing, unknown or changed; [] if it is intact.

    With `names`, only the content of these files is checked, for a reader that opens no others.
    """
    try:
        files = read_manifest(folder).files
        found = dict(_present(folder, files))
    except DamagedError as error:
        return [str(error)]
    except OSError as error:
        return [f"{folder.name} cannot be read ({error.strerror or type(error).__name__})"]
    wrong = [f"{name} is missing" for name in files if name not in found]
    wrong += [f"{name} is not listed in {MANIFEST}" for name in found if name not in files]
    for name in files if names is None else names:
        if name in files and name in found:
            try:
                check_file(found[name], files[name])
            except DamagedError as error:
                inner = f"{name.rpartition('/')[0]}/" if "/" in name else ""
                wrong.append(f"{inner}{error}")
    return wrong


def _present(folder: Path, files: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """What a committed folder holds beside its manifest; of an inner folder that is listed, the files in it."""
    inner = {name.partition("/")[0] for name in files if "/" in name}
    for path in folder.iterdir():
        if path.name in inner and path.is_dir() and not path.is_symlink():
            yield from ((f"{path.name}/{each.name}", each) for each in path.iterdir())
        elif path.name != MANIFEST:
            yield path.name, path


_PENDING: dict[Path, Future[list[str]]] = {}


@contextlib.contextmanager
def check_in_background(folder: Path) -> Iterator[None]:
    """Run `problems` on a thread while the block runs; `background_check` gives its result."""
    with contextlib.suppress(OSError):  # an invalid file name, which is reported when the folder is read
        if (folder / MANIFEST).is_file():
            pool = ThreadPoolExecutor(1)
            _PENDING[folder] = pool.submit(problems, folder)
            pool.shutdown(wait=False)
    try:
        yield
    finally:
        _PENDING.pop(folder, None)  # the folder may change after this


def background_check(folder: Path) -> Future[list[str]] | None:
    """The result of a check started by `check_in_background`, once; None if none was started."""
    return _PENDING.pop(folder, None)
