"""File systems of a process of its own: small ones, read-only ones. They vanish with the process.

Nothing is mounted for anyone else, and nothing is left behind, however the process ends: the mounts are made in a mount
namespace of their own (Linux), for users who are not root in a user namespace as well.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from headway.reliability.process import start

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000


def unshare() -> None:
    """Give this process mounts of its own. Raises OSError where that is not permitted."""
    if sys.platform != "linux":
        raise OSError(f"not possible on {sys.platform}")
    user, group = os.getuid(), os.getgid()
    _call("unshare", CLONE_NEWNS if user == 0 else CLONE_NEWNS | CLONE_NEWUSER)
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount("none", Path("/"), None, MS_REC | MS_PRIVATE)


def mount_memory(folder: Path, size: int) -> None:
    """Mount a file system in memory, of this size in bytes, on an empty folder. Raises OSError."""
    _mount("tmpfs", folder, "tmpfs", 0, f"size={size}")


def resize(folder: Path, size: int) -> None:
    """Change the size of a file system in memory. Raises OSError."""
    _mount("tmpfs", folder, "tmpfs", MS_REMOUNT, f"size={size}")


def make_read_only(folder: Path) -> None:
    """Make a folder and what is in it read-only, for root too. Raises OSError."""
    _mount(str(folder), folder, None, MS_BIND)
    _mount("none", folder, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def reason_against(folder: Path) -> str | None:
    """Why such mounts cannot be made here; None if they can. Tries it on an empty folder, in a child."""

    def attempt() -> None:
        unshare()
        mount_memory(folder, 2**20)

    ended = start(attempt).wait()
    return None if ended.code == 0 else (ended.err.strip().splitlines() or ["unknown"])[-1]


def _mount(source: str, target: Path, kind: str | None, flags: int, settings: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, str(target), kind)]
    _call("mount", *words, flags, None if settings is None else settings.encode())


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
