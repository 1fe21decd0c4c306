"""The manifest of a committed folder: size and SHA-256 of every file.

This module must not import torch: a command verifies the checksums of what it will load on a thread while torch is
being imported.
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
INT8 = "int8"  # the folder of a run that holds its 8-bit copy
CHUNK = 2**23  # bytes hashed at once; between two chunks the thread waits for the GIL, up to 5 ms


def json_text(value: Any) -> str:
    """A value as the text of a JSON file."""
    return json.dumps(value, indent=2) + "\n"


def fingerprint(path: Path) -> dict[str, Any]:
    """The size and SHA-256 of a file."""
    digest, room = hashlib.sha256(), memoryview(bytearray(min(CHUNK, path.stat().st_size + 1)))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(room):
            digest.update(room[:count])
    return {"size": path.stat().st_size, "sha256": digest.hexdigest()}


def files_digest(files: Any) -> str:
    """The checksum of a manifest's `files`."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def problems(folder: Path) -> list[str]:
    """What is wrong with a committed folder: each file missing, unknown or changed; [] if it is intact."""
    for path in (folder, folder / MANIFEST):
        if path.is_symlink():
            return [f"{path.name} is a link"]
    try:
        text = (folder / MANIFEST).read_text()
        manifest = json.loads(text)
        files = manifest["files"]
        if text != json_text({"files": files, "sha256": files_digest(files)}):
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
