"""The manifest of a committed folder, by which every byte of it can be checked.

Nothing here imports torch: a command begins to check what it will load while torch is being imported, which takes most
of a second in which a second processor has nothing to do.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

MANIFEST = "MANIFEST.json"
INT8 = "int8"  # the folder in a run where its 8-bit copy is
CHUNK = 2**23  # bytes hashed at once: between two a thread waits for its turn, which may take five milliseconds


def as_text(value: Any) -> str:
    """A value as JSON for a file of its own."""
    return json.dumps(value, indent=2) + "\n"


def fingerprint(path: Path) -> dict[str, Any]:
    """A file's size and content."""
    digest, room = hashlib.sha256(), memoryview(bytearray(min(CHUNK, path.stat().st_size + 1)))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(room):
            digest.update(room[:count])
    return {"size": path.stat().st_size, "sha256": digest.hexdigest()}


def seal(files: Any) -> str:
    """The checksum of a manifest's list of files."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def problems(folder: Path) -> list[str]:
    """What is wrong with a committed folder: every file missing, unknown, of another size or content. [] if sound."""
    for path in (folder, folder / MANIFEST):
        if path.is_symlink():
            return [f"{path.name} is a link"]
    try:
        text = (folder / MANIFEST).read_text()
        manifest = json.loads(text)
        files = manifest["files"]
        if text != as_text({"files": files, "sha256": seal(files)}):
            return [f"{MANIFEST} does not match its own checksum"]
        found = {path.name: path for path in folder.iterdir() if path.name != MANIFEST}
        wrong = [f"{name} is missing" for name in files if name not in found]
        wrong += [f"{name} does not belong there" for name in found if name not in files]
        for name, path in found.items():
            if name in files and (path.is_symlink() or not path.is_file()):
                wrong.append(f"{name} is not a plain file")
            elif name in files and fingerprint(path) != files[name]:
                wrong.append(f"{name} is damaged")
        return wrong
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"{MANIFEST} cannot be read ({type(error).__name__})"]


_BEGUN: dict[Path, Future[list[str]]] = {}


@contextlib.contextmanager
def ahead(folder: Path) -> Iterator[None]:
    """Meanwhile look for problems on a thread, for whoever asks `begun`."""
    with contextlib.suppress(OSError):  # a name that no file can have: whoever reads it will say so
        if (folder / MANIFEST).is_file():
            pool = ThreadPoolExecutor(1)
            _BEGUN[folder] = pool.submit(problems, folder)
            pool.shutdown(wait=False)
    try:
        yield
    finally:
        _BEGUN.pop(folder, None)  # later the folder may be another


def begun(folder: Path) -> Future[list[str]] | None:
    """What `ahead` finds, once."""
    return _BEGUN.pop(folder, None)
