"""A training that fails before its first step leaves the disk as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.cli import main
from headway.runs import train as training
from headway.storage.locks import LOCK, FolderBefore, locked
from tests.cli.test_commands import QUICK

SMALL = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2"]


@pytest.fixture
def words(tmp_path) -> list[str]:
    (tmp_path / "book.txt").write_text("to be or not to be.\n" * 40)
    data = ["--data", str(tmp_path / "book.txt"), "--data.cache", str(tmp_path / "cache")]
    return ["train", "gpt-char", *data, "--out", str(tmp_path / "runs" / "mine"), *SMALL, *QUICK]


def entries(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if "cache" not in each.parts}


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--data", "nowhere.txt"], 3, "nowhere.txt"),
        (["--task.context", "5000", "--model.context", "5000"], 3, "the text has"),
        (["--model.heads", "3"], 2, "heads"),
        (["--task.context", "500"], 3, "the learned positions end at 64"),
        (["--init", "nowhere"], 4, "nowhere: no such run"),
    ],
)
def test_a_refused_start_leaves_no_folder(words, tmp_path, capsys, more, code, message):
    """TRIALS B bug 9: failed trainings left folders behind, with a lock, a config and a tokenizer."""
    before = entries(tmp_path)
    assert main([*words, *more]) == code
    assert message in capsys.readouterr().err
    assert entries(tmp_path) == before


def test_what_a_user_has_in_the_folder_stays(words, tmp_path, capsys):
    mine = tmp_path / "runs" / "mine"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("my own")
    (mine / "tokenizer.json").write_text("{}")
    before = entries(tmp_path)
    assert main([*words, "--data", "nowhere.txt"]) == 3
    assert entries(tmp_path) == before
    assert (mine / "tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("place", ["make_ready", "build_model", "plan_of"])
def test_an_end_before_the_first_step_leaves_nothing_and_an_interrupt_says_so(
    words, tmp_path, capsys, monkeypatch, error, place
):
    """TRIALS B bug 9; `plan_of` is called when config and tokenizer are written."""

    def ends(*_: object, **__: object) -> None:
        raise error

    before = entries(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(training, place, ends)
        assert main(words) == (130 if error is KeyboardInterrupt else 9)
    told = " ".join(capsys.readouterr().err.split())
    assert (f"no step was trained yet: nothing is left in {tmp_path / 'runs' / 'mine'}" in told) == (
        error is KeyboardInterrupt
    )
    assert entries(tmp_path) == before
    assert main(words) == 0  # and the same command works then


def test_a_trained_step_is_kept(words, tmp_path, capsys, monkeypatch):
    def ends(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headway.training.trainer.Trainer._evaluate", ends)
    assert main(words) == 130
    assert {"config.yaml", "log.jsonl", "tokenizer.json"} <= set(os.listdir(tmp_path / "runs" / "mine"))


def test_a_run_that_is_there_loses_nothing_when_a_start_is_refused(words, tmp_path, capsys):
    assert main(words) == 0
    before = {each: each.read_bytes() for each in (tmp_path / "runs").rglob("*") if each.is_file()}
    for more in ([], ["--resume", "--model.width", "32"], ["--resume", "--data", "nowhere.txt"]):
        assert main([*words, *more]) != 0
        assert {each: each.read_bytes() for each in (tmp_path / "runs").rglob("*") if each.is_file()} == before


def test_only_what_is_new_is_removed_and_only_empty_folders(tmp_path):
    before = FolderBefore(tmp_path / "a" / "b")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / LOCK).touch()
    (tmp_path / "a" / "other").touch()
    before.restore()
    assert entries(tmp_path) == {"a", "a/other"}


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_again(tmp_path, monkeypatch):
    """Who waits for the lock of a start that fails may open the file just before it is removed."""
    from headway.storage import locks

    plain, removed = locks.fcntl.flock, []

    def once_removed(file: object, operation: int) -> None:
        plain(file, operation)
        if not removed:
            removed.append((tmp_path / "run" / LOCK).unlink())

    monkeypatch.setattr(locks.fcntl, "flock", once_removed)
    with locked(tmp_path / "run"):
        assert (tmp_path / "run" / LOCK).read_text() == str(os.getpid())
