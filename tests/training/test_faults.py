"""What the disk, the data and the numbers can do to a run, and what is left of it."""

from __future__ import annotations

import json
import math
import random
import shutil
from dataclasses import replace

import pytest

from headway.errors import NonFiniteError, NoRunError, StorageError
from headway.reliability.disks import Crash, DyingDisk, FailingDisk, WatchedDisk, crash, used
from headway.storage import commit as storage
from headway.training.checkpoints import Checkpoints, average_weights
from tests.training.small import TRAIN, CountingTask, losses, state_hash, trainer


@pytest.mark.parametrize("power_loss", [False, True])
def test_every_crash_point_of_a_save_leaves_a_sound_run_that_ends_the_same(tmp_path, power_loss):
    config = replace(TRAIN, steps=4, save_every=2, evaluate_every=2, keep=1)
    straight = trainer(tmp_path / "straight", config)
    straight.train()
    expected = state_hash(straight), losses(tmp_path / "straight")
    counted = WatchedDisk()
    with used(counted):
        trainer(tmp_path / "counted", config).train()
    for point in range(counted.points):
        folder = tmp_path / f"crash-{point}"
        with used(DyingDisk(point, random.Random(point), power_loss=power_loss, end=crash)), pytest.raises(Crash):
            trainer(folder, config).train()
        again = trainer(folder, config)
        again.resume()
        again.train()
        assert (state_hash(again), losses(folder)) == expected, f"crash point {point}"
        assert not list(folder.rglob(".draft-*"))
    assert counted.points > 40


@pytest.mark.parametrize("number", [28, 5, 30])  # ENOSPC, EIO, EROFS
def test_a_failed_save_leaves_the_checkpoint_before_it(tmp_path, number):
    made = trainer(tmp_path)
    for _ in range(2):
        made.advance()
    made.save()
    made.advance()
    for point in range(14):
        disk = FailingDisk(point, OSError(number, "no"))
        with used(disk), pytest.raises(StorageError, match=r"could not be written .* bytes free") as caught:
            made.save()
        assert caught.value.exit_code == 5
        storage.remove_stale_drafts(tmp_path / "checkpoints")
        assert Checkpoints(tmp_path).newest_intact() in (2, 3)
        if Checkpoints(tmp_path).newest_intact() == 3:
            break
    assert point > 8


def damage(folder, chance: random.Random) -> str:
    """Spoil a committed checkpoint in one of the ways disks and people do."""
    files = sorted(path for path in folder.iterdir())
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    kind = chance.choice(["flip", "truncate", "zero page", "missing", "extra", "swap", "empty", "link"])
    if kind == "flip":
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    elif kind == "truncate":
        path.write_bytes(data[: chance.randrange(len(data))])
    elif kind == "zero page":
        start = chance.randrange(len(data))
        part = data[start : start + 4096]
        data[start : start + 4096] = bytes(b ^ 0xFF for b in part)  # a page of noise: a page of zeros may be no change
        path.write_bytes(data)
    elif kind == "missing":
        path.unlink()
    elif kind == "extra":
        (folder / "extra.safetensors").write_bytes(b"x")
    elif kind == "swap":
        other = chance.choice([each for each in files if each != path])
        a, b = path.read_bytes(), other.read_bytes()
        path.write_bytes(b)
        other.write_bytes(a)
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        target = folder.parent / "elsewhere"
        target.write_bytes(bytes(data))
        path.unlink()
        path.symlink_to(target)
    return f"{kind} {path.name}"


def test_five_hundred_damaged_checkpoints_are_all_noticed_and_the_last_good_one_used(tmp_path):
    made = trainer(tmp_path / "run", replace(TRAIN, keep=3))
    for _ in range(2):
        made.advance()
        made.save()
    good, chance = made.checkpoints.path(2), random.Random(0)
    pristine = tmp_path / "pristine"
    shutil.copytree(good, pristine)
    for trial in range(500):
        what = damage(good, chance)
        notes: list[str] = []
        assert Checkpoints(tmp_path / "run", notes.append).newest_intact() == 1, f"{trial}: {what}"
        assert len(notes) == 1
        assert "damaged" in notes[0]
        shutil.rmtree(good)
        shutil.copytree(pristine, good)
    assert Checkpoints(tmp_path / "run").newest_intact() == 2


def test_a_run_without_a_sound_checkpoint_says_so(tmp_path):
    with pytest.raises(NoRunError, match="no checkpoint is intact") as caught:
        Checkpoints(tmp_path).weights()
    assert caught.value.exit_code == 4


def test_only_the_newest_are_kept_and_the_best_always(tmp_path):
    made = trainer(tmp_path, replace(TRAIN, steps=12, save_every=1, evaluate_every=4, keep=2))
    made.train()
    best = json.loads((tmp_path / "best.json").read_text())["step"]
    assert set(made.checkpoints.steps()) == {11, 12, best}
    assert json.loads((tmp_path / "latest.json").read_text())["step"] == 12


# --- NaN and infinite values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [0, 3, 9])
def test_a_non_finite_step_stops_by_default_and_is_never_saved(tmp_path, batch):
    task = CountingTask()
    task.poison = batch
    made = trainer(tmp_path, task=task)
    with pytest.raises(NonFiniteError, match=rf"step {batch // 2 + 1}: loss nan") as caught:
        made.train()
    assert caught.value.exit_code == 6
    for step in made.checkpoints.steps():
        model, tensors, _ = made.checkpoints.read(step)
        assert all(t.isfinite().all() for t in (*model.values(), *tensors.values()) if t.is_floating_point())


def test_skip_leaves_the_step_out_and_goes_on(tmp_path):
    task = CountingTask()
    task.poison = 8
    made = trainer(tmp_path, replace(TRAIN, non_finite="skip"), task)
    made.train()
    assert made.step == 12
    assert any("step 5" in note and "skipped" in note for note in made.callback.notes)
    assert all(p.isfinite().all() for p in made.model.parameters())


def test_rollback_takes_the_last_checkpoint_and_passes_the_batch(tmp_path):
    task = CountingTask()
    task.poison = 9
    made = trainer(tmp_path, replace(TRAIN, non_finite="rollback"), task)
    made.train()
    assert made.step == 12
    assert any("rolled back" in note for note in made.callback.notes)
    assert all(p.isfinite().all() for p in made.model.parameters())


def test_patience_ends_a_run_that_gets_no_better(tmp_path):
    task = CountingTask()
    task.validate = lambda model, device: 1.0
    made = trainer(tmp_path, replace(TRAIN, steps=100, evaluate_every=2, patience=3), task)
    made.train()
    assert made.step == 8
    assert made.checkpoints.best_step() == 2


def test_the_mean_of_equal_models_is_that_model():
    model = trainer.__globals__["build_model"](trainer.__globals__["MODEL"]).state_dict()
    mean = average_weights([model] * 3)
    assert all((mean[name] == tensor).all() for name, tensor in model.items())


def test_the_loss_goes_down(tmp_path):
    made = trainer(tmp_path, replace(TRAIN, steps=60, evaluate_every=60, save_every=60))
    made.train()
    first, last = losses(tmp_path)[0][1], losses(tmp_path)[-1][2]
    assert last < first - 0.5
    assert math.isfinite(last)
