"""A run on a disk that fills up: the checkpoint before stays, the message says what is missing, and it goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headway.cli import main
from headway.errors import StorageError
from headway.storage import disk as storage
from headway.storage.disk import Disk
from headway.storage.manifest import problems
from headway.training.checkpoints import Checkpoints
from headway.training.trainer import Trainer
from tests.storage.disk import PAGE, mounted
from tests.training import small
from tests.training.small import TRAIN, losses, state_hash, trainer

SIZES = 64
TOLD = re.compile(
    r"(?P<path>/\S+): could not be written "
    r"\(no space left; needs (?P<more>more than )?(?P<needs>[\d,]+) bytes, (?P<free>[\d,]+) bytes free there\)"
)


class Trusting(Disk):
    """A disk that is not asked for its room first, so that writing itself meets the end of it."""

    def expect_room(self, folder: Path, needs: int) -> None:
        pass


@pytest.fixture
def disk(tmp_path):
    with mounted(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def wide(monkeypatch):
    """A model whose checkpoint is more than half as many pages as there are sizes: no two sizes are the same."""
    monkeypatch.setattr(small, "MODEL", replace(small.MODEL, width=40))
    torch.set_num_threads(1)


def path_told(message: str) -> Path:
    """The path in a message of a full disk, which must not say that there was room: more is needed than is free."""
    told = TOLD.fullmatch(message)
    assert told, message
    needs, free = (int(told[name].replace(",", "")) for name in ("needs", "free"))
    assert needs == free if told["more"] else needs > free, message
    return Path(told["path"])


def used(folder: Path) -> int:
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in folder.rglob("*") if path.is_file())


def ending_of(made: Trainer) -> StorageError | None:
    try:
        made.train()
    except StorageError as error:
        return error
    return None


@pytest.mark.parametrize("kind", [Disk, Trusting])
def test_at_every_size_the_checkpoint_before_stays_and_the_run_ends_the_same(tmp_path, disk, wide, kind, monkeypatch):
    config = replace(TRAIN, steps=4, save_every=2, evaluate_every=2)
    straight = trainer(tmp_path / "straight", config)
    straight.train()
    expected = state_hash(straight), losses(tmp_path / "straight")
    trainer(tmp_path / "half", replace(config, steps=2)).train()
    checkpoint = used(Checkpoints(tmp_path / "half").path(2))
    assert checkpoint >= SIZES // 2 * PAGE
    monkeypatch.setattr(storage, "DISK", kind())
    run, named, full = disk.place / "run", set(), 0
    for n in range(SIZES):
        shutil.copytree(tmp_path / "half", run)
        disk.leave(2 * checkpoint * n // (SIZES - 1))
        made = trainer(run, config)
        made.resume()
        error = ending_of(made)
        if error:
            assert error.exit_code == 5
            named.add(path_told(str(error)).name)
            full += 1
            assert not list(run.rglob(".draft-*"))
        assert problems(Checkpoints(run).path(2)) == []
        assert Checkpoints(run).newest_intact() in (2, 4)
        assert all(line.endswith("}") for line in (run / "log.jsonl").read_text().splitlines())
        disk.leave(4 * checkpoint)
        again = trainer(run, config)
        assert again.resume()
        again.train()
        assert (state_hash(again), losses(run)) == expected, f"size {n}"
        shutil.rmtree(run)
    assert SIZES // 3 < full < SIZES
    assert {"log.jsonl", "step-00000004"} <= named


def test_the_size_of_a_checkpoint_is_known_within_a_hundredth(tmp_path, wide, monkeypatch):
    asked = []
    monkeypatch.setattr(storage.DISK, "expect_room", lambda folder, needs: asked.append(needs))
    made = trainer(tmp_path)
    made.advance()
    made.save()
    real = sum(path.stat().st_size for path in made.checkpoints.path(1).iterdir())
    assert asked == [pytest.approx(real, rel=0.01)]


def test_a_disk_that_has_no_room_is_not_filled_first(tmp_path, monkeypatch):
    made = trainer(tmp_path)
    made.advance()
    monkeypatch.setattr(storage.DISK, "make", lambda folder: pytest.fail("began to write"))
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10_000, 9_900, 100))
    with pytest.raises(StorageError, match=r"no space left; needs [\d,]{6,} bytes, 100 bytes free"):
        made.save()


def test_the_command_ends_with_five_and_one_line_and_goes_on_when_there_is_room(tmp_path, disk):
    book = tmp_path / "book.txt"
    book.write_text("to be or not to be, that is the question.\n" * 40)
    settings = (
        "--model.width 32 --model.layers 1 --model.heads 2 --train.save_every 2 --train.device cpu --train.keep 9"
    )
    often = ["--train.evaluate_every", "2", "--data.cache", str(tmp_path / "cache")]

    def train(out: Path) -> list[str]:
        wanted = [*settings.split(), *often, "--train.steps", "10"]
        return ["train", "gpt-char", "--data", str(book), "--out", str(out), *wanted]

    assert main(train(tmp_path / "straight")) == 0
    checkpoint = used(Checkpoints(tmp_path / "straight").path(10))  # with the optimiser state, as each has it at first
    disk.leave(3 * checkpoint)  # beside the checkpoints, a run needs room for its config and its log
    command = [sys.executable, "-m", "headway", *train(disk.place / "run")]
    stopped = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"})
    assert stopped.returncode == 5, stopped.stderr
    assert "Traceback" not in stopped.stderr
    said = [line for line in stopped.stderr.splitlines() if line.startswith("headway: ")]
    assert len(said) == 1
    assert path_told(said[0].removeprefix("headway: ")).is_relative_to(disk.place)
    steps = Checkpoints(disk.place / "run").steps()
    assert 2 in steps
    assert 10 not in steps
    assert all(problems(Checkpoints(disk.place / "run").path(step)) == [] for step in steps)
    disk.leave(16 * checkpoint)
    assert main([*train(disk.place / "run"), "--resume"]) == 0
    last = Path("checkpoints/step-00000010/model.safetensors")
    assert (disk.place / "run" / last).read_bytes() == (tmp_path / "straight" / last).read_bytes()


def test_a_disk_full_from_the_start_is_one_line_too(tmp_path, disk, capsys):
    book = tmp_path / "book.txt"
    book.write_text("to be or not to be, that is the question.\n" * 40)
    disk.leave(0)
    out = ["--out", str(disk.place / "run"), "--data.cache", str(tmp_path / "cache"), "--train.device", "cpu"]
    assert main(["train", "gpt-char", "--data", str(book), *out]) == 5
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    assert "no space left" in error
