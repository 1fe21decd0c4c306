"""What may be written to: regular files and real folders, never through a link, never over a device or a pipe."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from headway.errors import StorageError

DRAFT = ".draft-"  # name prefix of files and folders being written; a killed process leaves them behind
KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def expect_regular(path: Path) -> os.stat_result | None:
    """The regular file that is there, or None for nothing. Raises StorageError for anything else, or a read-only file.

    A rename would replace a link, a device or a pipe with a file; an `open` would write through a link.
    """
    with storage_errors(path):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return None
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise _refused(
            path, f"it is {KINDS.get(kind, 'not a file')}, not a regular file", "remove it or name another file"
        )
    if not os.access(path, os.W_OK):
        raise _refused(path, "it is read-only", "make it writable or name another file")
    return found


def expect_output(path: Path) -> None:
    """Raise StorageError if a file that the user names cannot be written there: its folder must exist."""
    with storage_errors(path):
        missing = not path.parent.is_dir()
    if missing:
        there = "is not a folder" if os.path.lexists(path.parent) else "does not exist"
        raise _refused(path, f"the folder {path.parent} {there}", "make it or name another file")
    expect_regular(path)


def expect_no_links(path: Path, *, inside: Path) -> None:
    """Raise StorageError if `path`, or a folder between it and `inside`, is a symbolic link.

    `inside` itself may be one: the user named it. What headway makes below it are plain files and folders.
    """
    for part in (path, *path.parents):
        if part == inside:
            return
        if part.is_symlink():
            raise _refused(path, f"{part} is a symbolic link, which headway does not write through", "remove the link")


def _refused(path: Path, reason: str, advice: str) -> StorageError:
    return StorageError(f"{path}: could not be written ({reason}; {advice})")


@contextlib.contextmanager
def storage_errors(path: Path, needs: int | None = None, *, doing: str = "written") -> Iterator[None]:
    """Turn OSError and SafetensorError into a StorageError with the path, the bytes needed and the bytes free."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        reason = "no space left" if full else _reason(error, path)
        told = "; ".join([reason, *_room(path, needs, full=full)])
        raise StorageError(f"{path}: could not be {doing} ({told})") from error


def _reason(error: Exception, path: Path) -> str:
    """An error in one line; the file it names is left out where it is the path itself, or a draft of it."""
    named = getattr(error, "filename", None)
    own = named is None or os.fspath(named) == os.fspath(path) or DRAFT in os.fsdecode(named)
    text = getattr(error, "strerror", None) if own else None
    return " ".join(str(text or error).split())


def _room(path: Path, needs: int | None, *, full: bool) -> list[str]:
    """The bytes needed and the bytes free; nothing where the file system does not tell.

    A file takes whole blocks and its folder takes some too: a write can fail although there is room for its bytes.
    """
    try:
        free = shutil.disk_usage(next(parent for parent in path.absolute().parents if parent.exists())).free
    except (OSError, StopIteration):
        return []
    if needs is None:
        return [f"{free:,} bytes free there"]
    needed = f"more than {free:,}" if full and needs <= free else f"{needs:,}"
    return [f"needs {needed} bytes, {free:,} bytes free there"]


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file, or create it, following no link. Raises StorageError for anything else."""
    expect_regular(path)
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
