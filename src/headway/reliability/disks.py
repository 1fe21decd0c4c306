"""Disks that fail, and processes that die at an exact operation of one.

Everything that headway writes goes through the operations of `headway.storage.disk.Disk`. Each of its public methods
is a point at which something can go wrong; a method added there is a point here without further ado.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from headway.storage import disk as storage_disk
from headway.storage.disk import Disk

LOG = "log.jsonl"
# Asks for the free space, and changes nothing.
QUESTIONS = ("expect_room",)
OPERATIONS = [
    name for name, _ in inspect.getmembers(Disk, inspect.isfunction) if name[0] != "_" and name not in QUESTIONS
]


class WatchedDisk(Disk):
    """A disk that counts its operations. `point` is called at every point at which a process can die.

    That is before each operation, after a file is written and before it is synced, and inside the removal of a folder.
    """

    def __init__(self) -> None:
        self.points = 0
        for name in OPERATIONS:
            setattr(self, name, self._watched(name, getattr(super(), name)))

    def _watched(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(path: Path, *others: Any, **settings: Any) -> Any:
            if name == "make_parents" and path.is_dir():
                return None  # there is nothing to do
            self._pass(lambda: None)
            if name == "remove" and path.is_dir() and not path.is_symlink():
                self._pass(lambda: self.half_removed(path))
            before = _content(others[0]) if name == "rename" else None
            found = operation(path, *others, **settings)
            self.done(name, path, others[0] if name == "rename" else None, before)
            if name == "write":
                self._pass(lambda: self.half_written(path))
            return found

        return operate

    def _pass(self, half: Callable[[], None]) -> None:
        self.points += 1
        self.point(self.points - 1, half)

    def point(self, number: int, half: Callable[[], None]) -> None:
        """At every point; `half` does the part of an operation that had been done there."""

    def done(self, name: str, path: Path, new: Path | None, before: bytes | None) -> None:
        """After every operation; of a rename, the new name and the content of the file that it replaced."""

    def half_written(self, path: Path) -> None:
        """Leave a part of a file."""

    def half_removed(self, path: Path) -> None:
        """Leave a part of a folder."""


class TellingDisk(WatchedDisk):
    """A disk that prints the number of each point, one a line."""

    def point(self, number: int, half: Callable[[], None]) -> None:
        print(number)


class FailingDisk(WatchedDisk):
    """A disk on which every operation from the n-th on fails with an error, or only the n-th."""

    def __init__(self, at: int, error: OSError, *, once: bool = False) -> None:
        super().__init__()
        self.at, self.error, self.once = at, error, once

    def point(self, number: int, half: Callable[[], None]) -> None:
        if number == self.at or (number > self.at and not self.once):
            raise self.error


class Crash(BaseException):
    """In place of the death of the process, for a test that outlives it."""


def die() -> NoReturn:
    """End this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(137)  # not reached


def crash() -> NoReturn:
    """Raise Crash."""
    raise Crash


@dataclass(frozen=True, slots=True)
class _Rename:
    old: Path
    new: Path
    before: bytes | None  # the content of a file that was replaced


class DyingDisk(WatchedDisk):
    """The process dies at the n-th point. With a loss of power, what was not synced is lost as well.

    The model of a loss of power: of a file that was not synced, nothing, a part, or zeros in its place are left; the
    last of the renames whose folders were not synced, or all of them, are undone; of the log, what was appended since
    it was synced is lost in part or as a whole. `chance` decides which.
    """

    def __init__(
        self, at: int, chance: random.Random, *, power_loss: bool = False, end: Callable[[], NoReturn] = die
    ) -> None:
        super().__init__()
        self.at, self.chance, self.power_loss, self.end = at, chance, power_loss, end
        self.unsynced: list[Path] = []
        self.renames: list[_Rename] = []
        self.synced_log: dict[Path, int] = {}  # bytes of each log that are on the disk

    def point(self, number: int, half: Callable[[], None]) -> None:
        if number == self.at:
            half()
            if self.power_loss:
                self._lose()
        if number >= self.at:  # a test that outlives it must not tidy up
            self.end()

    def done(self, name: str, path: Path, new: Path | None, before: bytes | None) -> None:
        if name in ("write", "create"):
            self.unsynced.append(path)
        elif name == "sync":
            self.unsynced = [each for each in self.unsynced if each != path]
            self.renames = [each for each in self.renames if each.new.parent != path]
            if path.name == LOG:
                self.synced_log[path] = path.stat().st_size
        elif new is not None:
            self.renames.append(_Rename(path, new, before))
            self.unsynced = [_moved(each, path, new) for each in self.unsynced]
            if new.name == LOG:
                self.synced_log[new] = new.stat().st_size

    def half_written(self, path: Path) -> None:
        if path.exists():
            os.truncate(path, self.chance.randrange(path.stat().st_size + 1))

    def half_removed(self, path: Path) -> None:
        for each in sorted(path.rglob("*")):
            if each.is_file() and self.chance.random() < 0.5:
                each.unlink()

    def _lose(self) -> None:
        for log, size in self.synced_log.items():
            if log.exists() and log.stat().st_size > size:
                os.truncate(log, self.chance.randint(size, log.stat().st_size))
        for path in self.unsynced:
            if path.is_file():
                size = path.stat().st_size
                left = self.chance.choice((0, size // 2, size))
                path.write_bytes(path.read_bytes()[:left] if left < size else bytes(size))
        # Renames reach a disk in their order: the last ones are lost, some or all.
        for each in reversed(self.renames[self.chance.randrange(len(self.renames) + 1) :] if self.renames else []):
            if each.new.exists():
                if each.old.exists():  # its name was used again
                    shutil.rmtree(each.new) if each.new.is_dir() else each.new.unlink()
                else:
                    each.new.rename(each.old)
                if each.before is not None:
                    each.new.write_bytes(each.before)


def _moved(path: Path, old: Path, new: Path) -> Path:
    """The path of a file after a rename of it, or of a folder above it."""
    return new / path.relative_to(old) if path.is_relative_to(old) else path


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None


def use(disk: Disk) -> None:
    """Make it the disk of this process."""
    storage_disk.DISK = disk


@contextlib.contextmanager
def used(disk: Disk) -> Iterator[None]:
    """Make it the disk of this process for a while."""
    before = storage_disk.DISK
    storage_disk.DISK = disk
    try:
        yield
    finally:
        storage_disk.DISK = before
