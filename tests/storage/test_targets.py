"""What may be written to: regular files and real folders. Links are not followed, nothing else is replaced (D3, D5)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headway.errors import ConfigError, StorageError
from headway.storage import commit, disk
from headway.storage.commit import (
    AppendLog,
    commit_file,
    commit_folder,
    commit_output,
    commit_run,
    commit_stream,
    remove_stale_drafts,
)
from headway.storage.disk import Disk
from headway.storage.locks import locked
from headway.storage.targets import expect_no_links

SECRET = "not to be touched\n"


def stream(path: Path, content: str) -> None:
    with commit_stream(path) as file:
        file.line(content)


def append(path: Path, content: str) -> None:
    with AppendLog(path) as log:
        log.line(content)


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))  # as /dev/null
    except PermissionError:
        pytest.skip("making a device is not permitted")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket may be a hundred bytes at most
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


KINDS = {
    "link": lambda path: path.symlink_to("victim"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to a folder": lambda path: path.symlink_to("."),
    "folder": Path.mkdir,
    "FIFO": os.mkfifo,
    "socket": listening,
    "device": device,
}


@pytest.mark.parametrize("write", [commit_file, commit_output, stream, append], ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_a_regular_file_stays(tmp_path, kind, write):
    """D3: `look -o` replaced devices, FIFOs and links by files."""
    (tmp_path / "victim").write_text(SECRET)
    target = tmp_path / "target"
    KINDS[kind](target)
    before = os.lstat(target)
    with pytest.raises(StorageError) as caught:
        write(target, "new")
    called = "symbolic link" if kind.startswith("link") else kind
    reason = f"it is a {called}, not a regular file; remove it or name another file"
    assert str(caught.value) == f"{target}: could not be written ({reason})"
    after = os.lstat(target)
    assert (after.st_ino, after.st_mode, after.st_rdev) == (before.st_ino, before.st_mode, before.st_rdev)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["target", "victim"]
    assert (tmp_path / "victim").read_text() == SECRET


@pytest.mark.parametrize("write", [commit_file, commit_output, stream], ids=lambda each: each.__name__)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, write, mode):
    """D3: a file of mode 0600 became one that all can read."""
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(mode)
    before = os.umask(0o077)  # which a new file is subject to, and an old one is not
    try:
        write(path, "new")
        write(tmp_path / "other", "new")
    finally:
        os.umask(before)
    assert path.read_text().strip() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o600


def test_a_draft_is_never_more_readable_than_the_file_it_replaces(tmp_path, monkeypatch):
    path, seen = tmp_path / "page.html", []
    path.write_text("old")
    path.chmod(0o600)

    class Watched(Disk):
        def write(self, path, writer):
            seen.append(stat.S_IMODE(path.stat().st_mode))
            super().write(path, writer)

    monkeypatch.setattr(disk, "DISK", Watched())
    commit_file(path, "new")
    assert seen == [0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_a_file_that_root_replaces_keeps_its_owner(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    os.chown(path, 12, 34)
    commit_file(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12, 34)


def test_a_read_only_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text(SECRET)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write to any
    with pytest.raises(StorageError, match="it is read-only; make it writable or name another file"):
        commit_file(path, "new")
    assert path.read_text() == SECRET


@pytest.mark.parametrize("write", [commit_output, stream], ids=lambda each: each.__name__)
def test_the_folder_of_an_output_is_not_made(tmp_path, write):
    """D3: missing folders were made unasked."""
    with pytest.raises(StorageError, match=r"x\.html: could not be written \(the folder \S+/no/deep does not exist; "):
        write(tmp_path / "no" / "deep" / "x.html", "new")
    (tmp_path / "wall").write_text(SECRET)
    with pytest.raises(StorageError, match=r"\(the folder \S+/wall is not a folder; make it or name another file\)"):
        write(tmp_path / "wall" / "x.html", "new")
    assert [each.name for each in tmp_path.iterdir()] == ["wall"]
    commit_file(tmp_path / "run" / "config.yaml", "a: 1")
    assert (tmp_path / "run" / "config.yaml").read_text() == "a: 1"


# --- the run folder ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_is_not_taken_through_a_link(tmp_path, kind):
    """D5: `.lock` was opened through a link, and the file it led to was overwritten with the process id."""
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.write_text(SECRET)
    run.mkdir()
    (run / "victim").write_text(SECRET)
    KINDS[kind](run / ".lock")
    with pytest.raises(StorageError, match=r"/\.lock: could not be written \(it is a "), locked(run):
        pytest.fail("locked")
    assert victim.read_text() == (run / "victim").read_text() == SECRET


def test_a_lock_that_cannot_be_had_is_not_said_to_be_another_process(tmp_path, monkeypatch):
    def no_locks(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(commit.fcntl, "flock", no_locks)
    with pytest.raises(StorageError, match=r"could not be locked \(Function not implemented"), locked(tmp_path):
        pytest.fail("locked")


def test_no_link_below_a_run_is_written_through(tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    (run / "checkpoints").mkdir(parents=True)
    elsewhere.mkdir()
    expect_no_links(run / "checkpoints" / "step-1", inside=run)
    (run / "checkpoints" / "step-1").symlink_to(elsewhere)
    with pytest.raises(StorageError, match="step-1 is a symbolic link, which headway does not write through"):
        expect_no_links(run / "checkpoints" / "step-1", inside=run)
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(elsewhere)
    with pytest.raises(StorageError, match="checkpoints is a symbolic link"):
        expect_no_links(run / "checkpoints" / "step-1", inside=run)
    (tmp_path / "again").symlink_to(run)  # the run folder may be a link: the user named it
    expect_no_links(tmp_path / "again" / "log.jsonl", inside=tmp_path / "again")


@pytest.mark.parametrize("kind", ["link", "link to nothing", "link to a folder"])
def test_a_folder_is_not_committed_in_the_place_of_a_link(tmp_path, kind):
    (tmp_path / "victim").write_text(SECRET)
    KINDS[kind](tmp_path / "x")
    with pytest.raises(ConfigError, match="exists already"), commit_folder(tmp_path / "x") as draft:
        draft.text("a", "a")
    with pytest.raises(ConfigError, match="is a symbolic link, which is not replaced"), commit_run(tmp_path / "x"):
        pytest.fail("began to write")
    with pytest.raises(StorageError), commit_folder(tmp_path / "x", shared=True) as draft:
        draft.text("a", "a")
    assert (tmp_path / "x").is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["victim", "x"]


def test_the_folders_above_what_processes_share_are_private(tmp_path):
    """TRIALS section 8: the cache was made by the umask, open to all."""
    with commit_folder(tmp_path / "home" / "cache" / "tokens", shared=True) as draft:
        draft.text("a", "a")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("home", "home/cache")]
    assert modes == [0o700, 0o700]


# --- drafts --------------------------------------------------------------------------------------------------------


def drafts(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.startswith(".draft-")]


@pytest.mark.parametrize("write", [commit_file, stream], ids=lambda each: each.__name__)
def test_a_link_in_the_place_of_a_draft_is_not_followed(tmp_path, write, monkeypatch):
    (tmp_path / "victim").write_text(SECRET)
    monkeypatch.setattr(os, "urandom", bytes)  # otherwise the name cannot be known
    (tmp_path / ".draft-00000000-page.html").symlink_to("victim")
    with pytest.raises(StorageError, match=r"/page\.html: could not be written \(File exists"):
        write(tmp_path / "page.html", "new")
    assert (tmp_path / "victim").read_text() == SECRET


@pytest.mark.parametrize("write", [commit_file, stream], ids=lambda each: each.__name__)
@pytest.mark.parametrize("operation", ["create", "sync", "rename"])
def test_an_interrupt_leaves_no_draft(tmp_path, write, operation, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    failing = Disk()
    monkeypatch.setattr(failing, operation, interrupted)
    monkeypatch.setattr(disk, "DISK", failing)
    with pytest.raises(KeyboardInterrupt):
        write(path, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    assert path.read_text() == "old"


KILLED = """
import os, signal, sys
from pathlib import Path
from headway.storage.commit import commit_folder, commit_stream
with commit_stream(Path(sys.argv[1])), commit_folder(Path(sys.argv[2])) as draft:
    draft.text("a", "a")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_drafts_of_dead_processes_are_removed_and_those_of_living_ones_stay(tmp_path):
    page, folder = tmp_path / "page.html", tmp_path / "tokens"
    done = subprocess.run([sys.executable, "-c", KILLED, page, folder])
    assert done.returncode == -signal.SIGKILL
    (tmp_path / ".draft-notes").write_text("a user's")
    assert len(drafts(tmp_path)) == 3
    with commit_stream(page) as file:
        file.line("new")
        assert len(drafts(tmp_path)) == 3  # the dead one of this file is gone
        with commit_stream(page) as second:
            assert len(drafts(tmp_path)) == 4  # but the one that is being written is not
            second.line("second")
        assert page.read_text() == "second\n"
        remove_stale_drafts(tmp_path)
        assert len(drafts(tmp_path)) == 1
    assert page.read_text() == "new\n"
    assert drafts(tmp_path) == []


def test_the_dead_draft_of_a_folder_is_removed_by_the_next_one(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "page.html", tmp_path / "tokens"])
    with commit_folder(tmp_path / "tokens", shared=True) as draft:
        draft.text("a", "a")
    assert [name[16:] for name in drafts(tmp_path)] == ["page.html"]


def test_a_stale_draft_that_cannot_be_removed_blocks_no_write(tmp_path, monkeypatch):
    """For instance another user's, in /tmp."""
    dead = tmp_path / ".draft-00000000-page.html"
    dead.write_text("theirs")

    class Sticky(Disk):
        def remove(self, path):
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(disk, "DISK", Sticky())
    commit_output(tmp_path / "page.html", "mine")
    assert (tmp_path / "page.html").read_text() == "mine"
    assert dead.read_text() == "theirs"


@pytest.mark.parametrize("name", ["n" * 255, "ä" * 127, "𝕏" * 63])
def test_the_longest_names_can_be_written(tmp_path, name):
    commit_file(tmp_path / name, "a")
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_errors_name_the_file_and_not_its_draft(tmp_path):
    with pytest.raises(StorageError) as caught:
        commit_file(tmp_path / ("n" * 256), "a")
    assert "(File name too long; " in str(caught.value)
    assert ".draft-" not in str(caught.value)
