"""Atomic commits, locks, and files on a full disk."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from headway.errors import ConfigError, StorageError
from headway.storage.commit import AppendLog, commit_folder, commit_stream
from headway.storage.locks import locked
from headway.storage.manifest import problems, read_manifest
from tests.storage.disk import PAGE, mounted


@pytest.fixture
def disk(tmp_path):
    with mounted(tmp_path / "disk") as made:
        yield made


def test_two_trainers_on_one_folder_the_second_refuses(tmp_path):
    with locked(tmp_path), pytest.raises(ConfigError, match="in use by process"):
        locked(tmp_path).__enter__()
    with locked(tmp_path):
        assert (tmp_path / ".lock").exists()


def test_a_folder_is_committed_whole_or_not_at_all(tmp_path):
    with pytest.raises(ZeroDivisionError), commit_folder(tmp_path / "x") as draft:
        draft.write("a.txt", lambda path: path.write_text(str(1 / 0)))
    assert not (tmp_path / "x").exists()
    with commit_folder(tmp_path / "x") as draft:
        draft.text("a.txt", "a")
    assert problems(tmp_path / "x") == []
    with pytest.raises(ConfigError, match="exists already"):
        commit_folder(tmp_path / "x").__enter__()


@pytest.mark.parametrize("array", [np.arange(12).reshape(3, 4).T, np.zeros((0, 3)), np.array([True, False])])
def test_an_array_is_written_row_by_row(tmp_path, array):
    with commit_folder(tmp_path / "x") as draft:
        draft.array("a", array)
        draft.pieces("b", (row.tobytes() for row in array))
    assert (tmp_path / "x" / "a").read_bytes() == (tmp_path / "x" / "b").read_bytes() == array.tobytes()


def test_a_line_that_does_not_fit_leaves_nothing_behind(disk):
    with AppendLog(disk.place / "log") as log:
        log.line("x" * 100)
        disk.leave(PAGE)
        with pytest.raises(StorageError, match="no space left"):
            log.line("y" * 3 * PAGE)
    assert (disk.place / "log").read_text() == "x" * 100 + "\n"


def test_a_growing_file_that_does_not_fit_leaves_the_old_one(disk):
    path = disk.place / "beam.jsonl"
    path.write_text("old\n")
    disk.leave(3 * PAGE)

    def write(pages: int) -> None:
        with commit_stream(path) as file:
            file.line("x" * PAGE)
            file.line("x" * pages * PAGE)

    with pytest.raises(StorageError, match=r"/beam\.jsonl: could not be written \(no space left"):
        write(9)
    assert [(each.name, each.read_text()) for each in disk.place.iterdir()] == [("beam.jsonl", "old\n")]


@pytest.mark.parametrize("left", [1, 2, 4])
def test_a_full_disk_is_not_said_to_have_room(disk, left):
    """It said "needs 247,484 bytes, 249,856 bytes free": files take whole blocks."""
    disk.leave(left * PAGE)

    def write() -> None:
        with commit_folder(disk.place / "x", needs=5 * 10) as draft:
            for name in "abcde":
                draft.text(name, "x" * 10)

    with pytest.raises(StorageError) as caught:
        write()
    reason = f"no space left; needs more than {left * PAGE:,} bytes, {left * PAGE:,} bytes free there"
    assert str(caught.value) == f"{disk.place / 'x'}: could not be written ({reason})"
    assert list(disk.place.iterdir()) == []


def test_committing_and_manifests_do_not_import_torch():
    code = "import sys, headway.storage.commit, headway.storage.manifest; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_file_in_an_inner_folder_is_listed_and_checked(tmp_path):
    """As sentence-transformers has it: 1_Pooling/config.json."""
    folder = tmp_path / "folder"
    with commit_folder(folder) as draft:
        draft.json("config.json", {})
        draft.json("1_Pooling/config.json", {"mean": True})
    assert sorted(read_manifest(folder).files) == ["1_Pooling/config.json", "config.json"]
    assert problems(folder) == []
    (folder / "1_Pooling/config.json").write_text("{}")
    assert problems(folder) == ["1_Pooling/config.json is damaged"]
    (folder / "1_Pooling/extra").write_text("")
    assert "1_Pooling/extra is not listed in MANIFEST.json" in problems(folder)
    (folder / "other").mkdir()
    assert "other is not listed in MANIFEST.json" in problems(folder)
    (folder / "1_Pooling/config.json").unlink()
    assert "1_Pooling/config.json is missing" in problems(folder)
