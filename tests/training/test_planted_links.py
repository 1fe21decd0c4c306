"""Links in a run folder: training neither writes through them nor replaces them (D5)."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from headway.errors import StorageError
from tests.training.small import TRAIN, trainer


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["checkpoints", "log.jsonl", "latest.json", "best.json"])
def test_a_link_in_a_run_is_refused_before_the_first_step(tmp_path, name):
    run, victim = tmp_path / "run", tmp_path / "victim"
    run.mkdir()
    if name == "checkpoints":
        (victim / ".draft-00000000-step-00000001").mkdir(parents=True)  # not a draft of this run, and none to remove
        (victim / "step-00000009").mkdir()
        (victim / "step-00000009" / "model.safetensors").write_text("theirs")
    else:
        victim.write_text("theirs")
    (run / name).symlink_to(victim)
    before = contents(tmp_path)
    with pytest.raises(StorageError, match=rf"/{name}: could not be written \(.*symbolic link"):
        trainer(run, replace(TRAIN, steps=2, save_every=1)).train()
    assert contents(tmp_path) == before
    assert [path.name for path in run.iterdir()] == [name]
    assert (run / name).is_symlink()
    assert not victim.is_dir() or sorted(os.listdir(victim)) == [".draft-00000000-step-00000001", "step-00000009"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_in_the_place_of_a_checkpoint_is_refused(tmp_path, exists):
    """A link to a folder was taken for the checkpoint, which was then not saved."""
    run, victim = tmp_path / "run", tmp_path / "victim"
    made = trainer(run, replace(TRAIN, steps=2, save_every=2))
    made.checkpoints.folder.mkdir(parents=True)
    if exists:
        victim.mkdir()
    made.advance()
    made.checkpoints.path(1).symlink_to(victim)
    with pytest.raises(StorageError, match="step-00000001 is a symbolic link, which headway does not write through"):
        made.save()
    assert victim.exists() == exists
    assert not exists or not any(victim.iterdir())


def test_a_run_folder_may_be_a_link_itself(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to("elsewhere")
    trainer(tmp_path / "run", replace(TRAIN, steps=2, save_every=2)).train()
    assert (tmp_path / "elsewhere" / "checkpoints" / "step-00000002").is_dir()
    assert (tmp_path / "run").is_symlink()
