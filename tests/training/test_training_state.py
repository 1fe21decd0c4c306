"""The optimiser state is kept where training can be resumed from, and dropped elsewhere (TRIALS B, habits: 226 MB)."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import headway
from headway.cli import main
from headway.errors import NoRunError
from headway.models import GptConfig
from headway.reliability.disks import Crash, DyingDisk, WatchedDisk, crash, used
from headway.runs.train import _commit_files
from headway.storage.commit import remove_stale_drafts
from headway.storage.manifest import problems, read_manifest
from headway.storage.run_manifest import read_run_manifest
from headway.training.checkpoints import TRAINER, Checkpoints
from tests.interop.runs import write_run
from tests.older import make_older
from tests.training.small import TRAIN, losses, state_hash, trainer
from tests.training.test_verified_reading import TRAIN as TRAINED

KEPT = replace(TRAIN, steps=8, save_every=2, evaluate_every=2, keep=4)


def with_state(folder: Path) -> list[int]:
    checkpoints = Checkpoints(folder)
    return [step for step in checkpoints.steps() if (checkpoints.path(step) / TRAINER).exists()]


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> tuple[Path, str]:
    """A run of four checkpoints that all keep their optimiser state, and the hash of its last state."""
    torch.set_num_threads(1)
    made = trainer(tmp_path_factory.mktemp("full") / "run", replace(KEPT, keep_optimiser=True))
    made.train()
    return made.run, state_hash(made)


def test_the_newest_two_checkpoints_keep_the_optimiser_state(tmp_path, full):
    made = trainer(tmp_path, KEPT)
    made.train()
    assert with_state(full[0]) == [2, 4, 6, 8]
    assert with_state(tmp_path) == [6, 8]
    for step in (2, 4, 6, 8):
        folder = made.checkpoints.path(step)
        assert problems(folder) == []
        weights = (Checkpoints(full[0]).path(step) / "model.safetensors").read_bytes()
        assert (folder / "model.safetensors").read_bytes() == weights
    assert read_manifest(made.checkpoints.path(2)).facts["step"] == 2
    assert made.checkpoints.read(2)[1] == {}


def test_the_best_checkpoint_is_kept_without_it(tmp_path):
    made = trainer(tmp_path, replace(KEPT, keep=1))
    worse = iter([1.0, 2.0, 3.0, 4.0])
    made.task.validate = lambda model, device: next(worse)
    made.train()
    assert made.checkpoints.steps() == [2, 8]
    assert with_state(tmp_path) == [2, 8]  # two checkpoints: the older one can be fallen back on
    made = trainer(tmp_path / "more", replace(KEPT, keep=2))
    worse = iter([1.0, 2.0, 3.0, 4.0])
    made.task.validate = lambda model, device: next(worse)
    made.train()
    assert made.checkpoints.steps() == [2, 6, 8]
    assert with_state(tmp_path / "more") == [6, 8]
    assert made.checkpoints.weights()[1] == [2]


def test_a_damaged_newest_checkpoint_is_resumed_from_the_one_before_bit_by_bit(tmp_path, full):
    made = trainer(tmp_path, KEPT)
    made.train()
    (made.checkpoints.path(8) / TRAINER).write_bytes(b"")
    again = trainer(tmp_path, KEPT)
    assert again.resume()
    assert again.step == 6
    again.train()
    assert (state_hash(again), losses(tmp_path)) == (full[1], losses(full[0]))
    assert with_state(tmp_path) == [6, 8]


def test_where_both_are_damaged_the_message_says_what_is_left(tmp_path):
    made = trainer(tmp_path, KEPT)
    made.train()
    for step in (6, 8):
        (made.checkpoints.path(step) / "model.safetensors").write_bytes(b"")
    with pytest.raises(NoRunError, match=r"step 4 is intact and can be used, but not resumed: it has no optimiser"):
        trainer(tmp_path, KEPT).resume()
    assert Checkpoints(tmp_path, lambda note: None).weights()[1] == [4]


def test_a_resumed_training_drops_what_an_older_one_kept(tmp_path, full):
    run = Path(shutil.copytree(full[0], tmp_path / "run"))
    made = trainer(run, KEPT)
    assert made.resume()
    made.train()
    assert state_hash(made) == full[1]
    assert with_state(run) == [6, 8]


@pytest.mark.parametrize("power_loss", [False, True])
def test_dropping_can_be_killed_at_every_point(tmp_path, full, power_loss):
    expected, _ = Checkpoints(full[0]).weights(average=4)
    for point in range(200):
        run = Path(shutil.copytree(full[0], tmp_path / f"run-{point}"))
        disk = DyingDisk(point, random.Random(point), power_loss=power_loss, end=crash)
        notes: list[str] = []
        finished = False
        with used(disk):
            try:
                Checkpoints(run).drop_training_state([2, 4])
                finished = True
            except Crash:
                pass
        found, steps = Checkpoints(run, notes.append).weights(average=4)
        assert steps == [2, 4, 6, 8], f"point {point}: {notes}"
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
        assert notes == []
        assert Checkpoints(run, notes.append).newest_intact(resumable=True) == 8
        remove_stale_drafts(run / "checkpoints")
        Checkpoints(run).drop_training_state([2, 4])
        assert with_state(run) == [6, 8]
        assert not list(run.rglob(".draft-*"))
        assert [problems(Checkpoints(run).path(step)) for step in steps] == [[]] * 4
        if finished:
            break
    assert 10 < point < 199


def test_a_reader_notices_nothing_of_it(tmp_path, full):
    """At every moment of the work the weights are read without a note: an unlisted file would be damage."""
    run = Path(shutil.copytree(full[0], tmp_path / "run"))
    notes: list[str] = []

    class Reading(WatchedDisk):
        def point(self, number, half):
            assert Checkpoints(run, notes.append).weights(average=4)[1] == [2, 4, 6, 8]

    disk = Reading()
    with used(disk):
        Checkpoints(run).drop_training_state([2, 4])
    assert notes == []
    assert disk.points > 10


def test_the_int8_copy_of_a_checkpoint_stays_valid(tmp_path, full):
    run = Path(shutil.copytree(full[0], tmp_path / "run"))
    before = Checkpoints(run).key(average=4)
    Checkpoints(run).drop_training_state([2, 4])
    assert Checkpoints(run).key(average=4) == before


def test_checkpoints_of_an_older_version_stay_those_of_the_run(tmp_path):
    run = write_run(tmp_path / "run", GptConfig(vocab=30, context=24, width=16, layers=1, heads=2))
    checkpoints = Checkpoints(run)
    weights, _ = checkpoints.weights()
    checkpoints.save(2, weights, {"random.cpu": torch.get_rng_state()}, {"step": 2})
    make_older(run)
    files = {name: (run / name).read_bytes() for name in ("config.yaml", "tokenizer.json")}
    _commit_files(run, files, init=None)
    assert set(read_run_manifest(run).adopted) == {"step-00000001", "step-00000002"}
    checkpoints.drop_training_state([1, 2])
    assert headway.load(run, device="cpu", average=2).steps == [1, 2]


def test_the_command_line_keeps_all_if_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    words = TRAINED[:-1]
    assert main([*words, "--out", str(tmp_path / "few")]) == 0
    assert main([*words, "--out", str(tmp_path / "all"), "--keep-optimiser"]) == 0
    assert with_state(tmp_path / "few") == [4, 6]
    assert with_state(tmp_path / "all") == [2, 4, 6]
    assert main([*words, "--out", str(tmp_path / "all"), "--resume"]) == 0  # with the run's own config
    assert with_state(tmp_path / "all") == [2, 4, 6]
    free = ["--resume", "--train.keep_optimiser", "false"]
    assert main([*words, "--out", str(tmp_path / "all"), *free]) == 0
    assert with_state(tmp_path / "all") == [4, 6]
