"""`headway runs clean`: what is freed, what never is, and that it can be killed at every moment."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from pathlib import Path

import pytest
import torch

import headway
from headway.errors import ConfigError, NoRunError, StorageError
from headway.interop.hf_reference import REFERENCE
from headway.reliability.disks import Crash, DyingDisk, crash, used
from headway.runs.clean import KINDS, clean_run, removals
from headway.runs.folder import read_config
from headway.runs.sizes import run_sizes, size_of
from headway.storage.locks import locked
from headway.storage.manifest import problems
from headway.storage.run_manifest import commit_run_files, read_run_manifest
from headway.training.checkpoints import MODEL, TRAINER, Checkpoints
from tests.runs import messy
from tests.runs.messy import write_messy

LEFT = {
    ".lock", "MANIFEST.json", "config.yaml", "tokenizer.json", "log.jsonl", "best.json", "latest.json",
    "tensorboard/events", "checkpoints/step-00000005/trainer.safetensors",
    *(f"checkpoints/step-0000000{n}/{name}" for n in (3, 5) for name in ("MANIFEST.json", MODEL, "trainer.json")),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return write_messy(tmp_path_factory.mktemp("messy") / "run")


@pytest.fixture
def run(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def files(run: Path) -> set[str]:
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}


def weights(run: Path) -> dict[str, torch.Tensor]:
    found = headway.load(run, device="cpu")
    assert found.steps == [messy.BEST]
    return found.model.state_dict()


def test_everything_that_can_be_freed_is_found_and_nothing_is_touched(run):
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    found = removals(run)
    assert {each.kind for each in found} == set(KINDS) == messy.KINDS
    names = {str(each.path.relative_to(run)) for each in found}
    assert {"checkpoints/step-00000002", "checkpoints/step-00000004", "int8", REFERENCE, "beam.jsonl"} <= names
    assert f"checkpoints/step-00000003/{TRAINER}" in names
    assert f"checkpoints/step-00000005/{TRAINER}" not in names
    assert all(each.bytes == size_of(each.path) > 0 for each in found)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_what_is_left_is_the_run(run):
    before, size = weights(run), run_sizes(run).total
    freed = clean_run(run)
    assert files(run) == LEFT
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(run).items())
    assert size - run_sizes(run).total == pytest.approx(sum(each.bytes for each in freed), abs=500)  # manifests, lock
    assert Checkpoints(run).newest_intact(resumable=True) == 5
    assert REFERENCE not in read_run_manifest(run).files
    assert [problems(Checkpoints(run).path(step)) for step in (3, 5)] == [[], []]
    assert removals(run) == []
    read_config(run)


def test_the_optimiser_state_of_the_newest_goes_only_if_asked(run):
    before = weights(run)
    clean_run(run, optimiser=True)
    assert files(run) == LEFT - {f"checkpoints/step-00000005/{TRAINER}"}
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(run).items())
    assert Checkpoints(run).newest_intact(resumable=True) is None
    assert Checkpoints(run).newest_intact() == 5


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_alone(run, kind):
    before = files(run)
    found = clean_run(run, [kind])
    gone = before - files(run)
    assert gone
    assert all(any((run / name).is_relative_to(each.path) for each in found) for name in gone)
    assert kind not in {each.kind for each in removals(run)}
    weights(run)


def test_an_unknown_kind_is_named(run):
    with pytest.raises(ConfigError, match="'weights' is nothing that is freed, allowed: damaged, checkpoints"):
        removals(run, ["weights"])


def test_checkpoints_that_are_averaged_stay(run):
    config = run / "config.yaml"
    text = config.read_text()
    assert "average: 0" in text
    known = read_run_manifest(run)
    content = {name: (run / name).read_bytes() for name in known.files}
    content["config.yaml"] = text.replace("average: 0", "average: 2").encode()
    commit_run_files(run, content, run=known.run, adopted=known.adopted)
    clean_run(run)
    assert Checkpoints(run).steps() == [3, 4, 5]
    assert headway.load(run, device="cpu").steps == [4, 5]


def test_a_damaged_newest_checkpoint_keeps_the_one_before(run):
    (Checkpoints(run).path(5) / MODEL).write_bytes(b"")
    clean_run(run)
    assert Checkpoints(run).steps() == [3, 4, 5]  # the damaged one is for training to set aside
    notes: list[str] = []
    assert Checkpoints(run, notes.append).newest_intact(resumable=True) == 4


def test_a_run_without_an_intact_checkpoint_loses_nothing(run):
    for step in Checkpoints(run).steps():
        (Checkpoints(run).path(step) / MODEL).write_bytes(b"")
    before = files(run)
    with pytest.raises(NoRunError, match="no checkpoint is intact; nothing is freed"):
        clean_run(run)
    assert files(run) == before


def test_a_run_that_is_being_trained_is_refused(run):
    before = files(run) | {".lock"}
    with locked(run), pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"):
        clean_run(run)
    assert files(run) == before


def test_a_folder_that_is_no_run_gets_no_lock(tmp_path):
    with pytest.raises(NoRunError):
        clean_run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_removed_through_a_link(run, tmp_path):
    shutil.rmtree(run / "int8")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("mine")
    (run / "int8").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="symbolic link"):
        clean_run(run, ["int8"])
    assert (tmp_path / "elsewhere" / "file").exists()


@pytest.mark.parametrize("case", [None, *(pytest.param(case, marks=pytest.mark.slow) for case in range(4))])
def test_it_can_be_killed_at_every_moment(made, tmp_path, case):
    """By a kill or a loss of power, with and without --optimiser: the four by turns, and the slow tests all of them."""
    before = weights(made)
    for point in range(500):
        power_loss, optimiser = divmod(point % 4 if case is None else case, 2)
        run = Path(shutil.copytree(made, tmp_path / f"run-{point}"))
        finished = False
        with (
            used(DyingDisk(point, random.Random(point), power_loss=bool(power_loss), end=crash)),
            contextlib.suppress(Crash),
        ):
            clean_run(run, optimiser=bool(optimiser))
            finished = True
        notes: list[str] = []
        found, steps = Checkpoints(run, notes.append).weights()
        assert (steps, notes) == ([messy.BEST], []), f"point {point}"
        assert all(torch.equal(tensor, before[name]) for name, tensor in found.items())
        read_config(run)
        if not optimiser:
            assert Checkpoints(run, notes.append).newest_intact(resumable=True) == 5
        clean_run(run, optimiser=bool(optimiser))
        state = {f"checkpoints/step-00000005/{TRAINER}"} if optimiser else set()
        assert files(run) == LEFT - state
        assert removals(run) == []
        assert [problems(Checkpoints(run).path(step)) for step in (3, 5)] == [[], []]
        shutil.rmtree(run)
        if finished:
            break
    assert 20 < point < 499
