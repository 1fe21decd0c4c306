"""The file system operations that headway writes with, in one object: a fault can be injected into each of them."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path


class Disk:
    """The file system operations used for writing, one method each, so that tests can inject a failure into each."""

    def expect_room(self, folder: Path, needs: int) -> None:
        """Raise OSError(ENOSPC) if the file system reports its size and has fewer than `needs` bytes free."""
        usage = shutil.disk_usage(folder)
        if usage.total and usage.free < needs:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def make(self, folder: Path) -> None:
        """Create a folder."""
        folder.mkdir()

    def make_parents(self, folder: Path, *, private: bool = False) -> None:
        """Create a folder and those above it where they are missing; `private` ones can be read by this user alone."""
        if not folder.is_dir():
            self.make_parents(folder.parent, private=private)
            with contextlib.suppress(FileExistsError):  # another process was faster; a file there fails later
                folder.mkdir(0o700 if private else 0o777)

    def create(self, path: Path, like: os.stat_result | None = None) -> io.FileIO:
        """Create an empty file where nothing is, not even a link, with the permissions and the owner of `like`."""
        mode = 0o666 if like is None else stat.S_IMODE(like.st_mode) & 0o777
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        file = io.FileIO(handle, "ab")
        if like is not None:
            for owner, group in ((-1, like.st_gid), (like.st_uid, -1)):
                with contextlib.suppress(OSError):  # only root may give a file to anyone
                    os.fchown(handle, owner, group)
            os.fchmod(handle, mode)  # after the owner, and whatever the umask is
        return file

    def write(self, path: Path, writer: Callable[[Path], None]) -> None:
        """Write a file's content by `writer`, which may create the file."""
        writer(path)

    def sync(self, path: Path) -> None:
        """fsync a file or folder."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder, replacing a file of that name."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Delete a file, or a folder and its content."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def remove_empty(self, folder: Path) -> None:
        """Delete a folder that has nothing in it."""
        folder.rmdir()


DISK = Disk()  # in use: read as `disk.DISK`, so that a fault replaces it everywhere
