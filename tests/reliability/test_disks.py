"""Disks that fail at an exact point."""

from __future__ import annotations

import random

import pytest

from headway.errors import StorageError
from headway.reliability.disks import Crash, DyingDisk, FailingDisk, WatchedDisk, crash, used
from headway.storage.commit import commit_file, commit_folder


def write(folder):
    with commit_folder(folder / "made") as draft:
        draft.text("a.txt", "long enough to be cut")
    commit_file(folder / "b.txt", "new")


def points(tmp_path) -> int:
    disk, folder = WatchedDisk(), tmp_path / "counted"
    folder.mkdir()
    (folder / "b.txt").write_text("old")
    with used(disk):
        write(folder)
    return disk.points


@pytest.mark.parametrize("power_loss", [False, True])
def test_at_every_point_what_is_committed_is_whole_or_not_there(tmp_path, power_loss):
    count = points(tmp_path)
    assert count > 12
    for point in range(count):
        folder = tmp_path / str(point)
        folder.mkdir()
        (folder / "b.txt").write_text("old")
        with used(DyingDisk(point, random.Random(point), power_loss=power_loss, end=crash)), pytest.raises(Crash):
            write(folder)
        assert (folder / "b.txt").read_text() in ("old", "new")
        if (folder / "made").exists():
            assert (folder / "made" / "a.txt").read_text() == "long enough to be cut"
            assert (folder / "made" / "MANIFEST.json").read_text().endswith("}\n")


def test_what_was_not_synced_is_lost_with_the_power(tmp_path):
    lost = set()
    for seed in range(8):
        (tmp_path / "x").write_text("old")
        # Point 3 is before the sync, after the write (two points) and the rename.
        disk = DyingDisk(3, random.Random(seed), power_loss=True, end=crash)
        disk.write(tmp_path / "y", lambda path: path.write_text("new content"))
        disk.rename(tmp_path / "y", tmp_path / "x")
        with pytest.raises(Crash):
            disk.sync(tmp_path)
        lost.add((tmp_path / "x").read_text())
    assert "old" in lost, "the rename was undone"
    assert len(lost) > 1, "the rename reached the disk, the content did not"
    assert "new content" not in lost


def test_an_error_comes_once_or_stays(tmp_path):
    for once in (True, False):
        folder = tmp_path / str(once)
        folder.mkdir()
        with used(FailingDisk(0, OSError(5, "broken"), once=once)):
            with pytest.raises(StorageError, match="broken"):
                commit_file(folder / "a", "x")
            if once:
                commit_file(folder / "a", "x")
            else:
                with pytest.raises(StorageError, match="broken"):
                    commit_file(folder / "a", "x")
