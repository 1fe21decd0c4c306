"""A real file system of a few pages, for the tests that fill it."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway.reliability import mounts

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
        mounts.resize(self.place, size)


@contextmanager
def mounted(place: Path) -> Iterator[SmallDisk]:
    """A tmpfs at this place; the test is skipped, loudly, where mounting is not permitted."""
    place.mkdir()
    try:
        mounts.mount_memory(place, 2**26)
    except OSError as error:
        reason = f"no full disk tested: mounting a small file system is not permitted ({error})"
        warnings.warn(reason, stacklevel=1)  # a skip alone is one letter among a thousand dots
        pytest.skip(reason)
    try:
        yield SmallDisk(place)
    finally:
        # Lazily: after a failure the traceback may still hold tensors that are mapped from a file there.
        subprocess.run(["umount", "--lazy", place], check=True)
