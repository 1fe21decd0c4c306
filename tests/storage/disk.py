"""A real file system of a few pages, for the tests that fill it."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = os.sysconf("SC_PAGE_SIZE")  # a tmpfs hands out room by the page


class SmallDisk:
    """A mounted tmpfs whose size can be changed."""

    def __init__(self, place: Path) -> None:
        self.place = place

    @property
    def used(self) -> int:
        found = os.statvfs(self.place)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def leave(self, room: int) -> None:
        """Make the disk as large as what it holds and so much more."""
        size = max(self.used + room, PAGE)  # 0 would mean no limit
        subprocess.run(["mount", "-o", f"remount,size={size}", self.place], check=True)


@contextmanager
def mounted(place: Path) -> Iterator[SmallDisk]:
    """A tmpfs at this place; the test is skipped, loudly, where mounting is not permitted."""
    place.mkdir()
    reason = _mount(place)
    if reason:
        reason = f"no full disk tested: mounting a small file system is not permitted ({reason})"
        warnings.warn(reason, stacklevel=1)  # a skip alone is one letter among a thousand dots
        pytest.skip(reason)
    try:
        yield SmallDisk(place)
    finally:
        # Lazily: after a failure the traceback may still hold tensors that are mapped from a file there.
        subprocess.run(["umount", "--lazy", place], check=True)


def _mount(place: Path) -> str:
    """Mount, and say why not where it fails."""
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "headway-test", place]
    try:
        made = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return (made.stderr.strip() or f"exit code {made.returncode}") if made.returncode else ""
