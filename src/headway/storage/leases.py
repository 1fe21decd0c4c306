"""Leases: which worker is at which piece of work, in a folder that any number of machines see, without a server.

A lease is a file that its holder created and touches while it works. Another worker takes it over when the holder is
gone. On the machine of the holder that shows at once: the holder has the file locked, and a lock ends with its process.
From another machine it shows by time: the file was not touched for as long as its holder promised to touch it. That
time is measured by the observer's own monotonic clock from the moment at which it saw the last change, so the clocks of
the machines and of the file server need not agree.

A lease saves work and guards nothing: a holder that was only slow may finish after another has taken over. Results
must be committed so that either one may be first (`commit_folder(…, shared=True)`).
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from headway.documents import parse_json
from headway.errors import DataError, shown
from headway.storage import disk
from headway.storage.targets import storage_errors

BOOT = Path("/proc/sys/kernel/random/boot_id")
TOUCHES = 10  # of a lease within its time, so that a slow disk or a busy processor does not lose it
MAX_LEASE = 2000  # bytes of its file

Sighting = tuple[tuple[int, int], float]  # file and time of its last touch, and when this process saw them first


@cache
def machine() -> str:
    """This machine until its next start: processes with the same value see each other's locks."""
    with contextlib.suppress(OSError):
        return BOOT.read_text().strip()
    return f"{platform.node()}-{uuid.getnode():x}"


class Leases:
    """The leases in a folder, each by the name of a piece of work; `seconds` without a touch end those of this process.

    `now` is a clock that only goes forward.
    """

    def __init__(self, folder: Path, seconds: float, *, now: Callable[[], float] = time.monotonic) -> None:
        self.folder, self.seconds, self.now = folder, seconds, now
        self._sightings: dict[str, Sighting] = {}

    def take(self, name: str) -> Lease | None:
        """The lease of this name, or None while another worker holds it. Raises StorageError."""
        path = self.folder / name
        with storage_errors(path):
            disk.DISK.make_parents(self.folder)
            try:
                file: io.FileIO | None = disk.DISK.create(path)
            except FileExistsError:
                file = self._abandoned(path)
            if file is None:
                return None
            self._sightings.pop(name, None)
            return Lease(path, file, self.seconds)

    def remove_abandoned(self) -> None:
        """Remove leases that nothing holds: of workers that were killed between their result and its release."""
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if (lease := self.take(path.name)) is not None:
                with lease:
                    pass

    def holder(self, name: str) -> str:
        """Who holds a lease, for people; empty if it is free."""
        with contextlib.suppress(OSError), (self.folder / name).open("rb") as file:
            said = _holder(file.read(MAX_LEASE))
            process = said.get("process")
            return f"process {process} on {shown(said.get('host', ''))[1:-1]}" if process else "an unknown process"
        return ""

    def _abandoned(self, path: Path) -> io.FileIO | None:
        """The file of a lease that this process may take over, locked or new; None while its holder may be at work."""
        try:
            file = io.FileIO(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "r+b")
        except FileNotFoundError:
            return None  # it has just been released
        with contextlib.ExitStack() as stack:
            stack.enter_context(file)
            found, holder = os.fstat(file.fileno()), _holder(file.read(MAX_LEASE) or b"")
            if holder.get("machine") == machine() and _lock(file) and _is_named(file, path):
                stack.pop_all()
                return file
            if not self._expired(path.name, (found.st_ino, found.st_mtime_ns), holder) or not _is_named(file, path):
                return None
        # The old file stays with its holder, whose touches then keep nothing alive.
        disk.DISK.remove(path)
        try:
            return disk.DISK.create(path)
        except FileExistsError:  # another worker was faster
            return None

    def _expired(self, name: str, touched: tuple[int, int], holder: dict[str, Any]) -> bool:
        promised = holder.get("seconds")
        seconds = promised if isinstance(promised, int | float) and promised > 0 else self.seconds
        before = self._sightings.get(name)
        if before is None or before[0] != touched:
            self._sightings[name] = (touched, self.now())
            return False
        return self.now() - before[1] > seconds


class Lease:
    """A lease that this process holds until the block ends; a thread touches its file."""

    def __init__(self, path: Path, file: io.FileIO, seconds: float) -> None:
        self.path, self.file = path, file
        self._ended = threading.Event()
        said = {"machine": machine(), "host": platform.node(), "process": os.getpid(), "seconds": seconds}
        try:
            _lock(file)
            file.truncate(0)
            file.seek(0)
            disk.DISK.write(path, lambda _: _put(file, json.dumps(said).encode()))
        except BaseException:
            self._give_back()
            raise
        self._touching = threading.Thread(target=self._touch, args=(seconds / TOUCHES,), daemon=True)
        self._touching.start()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._touching.join()
        self._give_back()

    @property
    def held(self) -> bool:
        """Whether it was not taken over meanwhile."""
        return _is_named(self.file, self.path)

    def _touch(self, pause: float) -> None:
        while not self._ended.wait(pause):
            with contextlib.suppress(OSError):  # a server that is away for a moment; the next touch may arrive
                os.utime(self.file.fileno())

    def _give_back(self) -> None:
        """Remove the file, unless it is another worker's by now."""
        with self.file, contextlib.suppress(OSError):  # a lease that cannot be removed ends by its time
            if _is_named(self.file, self.path):
                disk.DISK.remove(self.path)


def _put(file: io.FileIO, data: bytes) -> None:
    file.write(data)  # cut short on a full disk, it says nothing of its holder, and ends by its time


def _lock(file: io.FileIO) -> bool:
    """Lock the file of a lease until it is closed -> whether this process has the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has it, or the file system has no locks: then only time counts
        return False
    return True


def _is_named(file: io.FileIO, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except OSError:
        return False


def _holder(data: bytes) -> dict[str, Any]:
    """What a lease says of its holder; nothing if its holder ended before it wrote that."""
    with contextlib.suppress(DataError):
        found = parse_json(data, "")
        if isinstance(found, dict):
            return found
    return {}
