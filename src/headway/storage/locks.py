"""The lock of a run folder: one process writes to a run at a time, and one that fails can undo what it wrote."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from headway.errors import ConfigError
from headway.storage import disk
from headway.storage.targets import open_regular, storage_errors

LOCK = ".lock"  # of a run folder; holds the process that locks it


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder, until the process ends at the latest. Raises ConfigError if another process holds the lock."""
    path = folder / LOCK
    file = None
    while file is None or not _is_open(file, path):  # the last holder may have removed it before this process opened it
        if file is not None:
            file.close()
        with storage_errors(path):
            disk.DISK.make_parents(folder)
            file = io.FileIO(open_regular(path, os.O_RDWR), "r+b")
        with storage_errors(path, doing="locked"):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                with file:
                    holder = (file.read(20) or b"").decode(errors="replace").strip()
                raise ConfigError(f"{folder} is in use by process {holder or 'unknown'}") from error
    with file:
        with storage_errors(path):
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        yield


def _is_open(file: io.FileIO, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def lock_holder(folder: Path) -> int | None:
    """The process on this machine that has a run folder locked, None if it is not locked. Takes no lock.

    The lock file names the last process that locked it. Whether that one still does is seen by its open files where the
    system shows them, else by whether there is such a process.
    """
    path = folder / LOCK
    with contextlib.suppress(OSError, ValueError):
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_size > 20:
            return None
        holder = int(path.read_text())
        if holder <= 0:
            return None
        try:
            opened = list(Path(f"/proc/{holder}/fd").iterdir())
        except OSError:  # another user's process, or a system without /proc
            os.kill(holder, 0)
            return holder
        for each in opened:
            with contextlib.suppress(OSError):
                if os.path.samestat(each.stat(), found):
                    return holder
    return None


class FolderBefore:
    """What a folder has before it is written to, so that what came since can be removed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = frozenset(_names(folder))
        self.missing = [each for each in (folder, *folder.parents) if not each.is_dir()]  # the innermost first

    def created(self) -> frozenset[str]:
        """The names in the folder that were not there before."""
        return frozenset(_names(self.folder)) - self.names

    def restore(self) -> None:
        """Remove what was created since, the lock last, and the folders that were missing if they are empty then.

        The caller must hold the lock of the folder. Raises StorageError.
        """
        with storage_errors(self.folder, doing="removed"):
            for name in sorted(self.created(), key=lambda name: (name == LOCK, name)):
                disk.DISK.remove(self.folder / name)
            for each in self.missing:
                if _names(each):
                    break
                disk.DISK.remove_empty(each)


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []
