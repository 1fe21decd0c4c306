"""A vision transformer taken over by another run: all of it, or all but the head, at another resolution."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import headway
from headway.cli import main
from headway.errors import ConfigError
from headway.models import VitConfig, build_model
from headway.nn.patches import resize_grid
from headway.presets import preset
from headway.runs import read_config
from headway.runs.finetune import fine_tuned, start_from
from headway.training.checkpoints import Checkpoints
from tests.interop.test_image_processor import photos, write_run

SMALL = VitConfig(classes=3, image=12, patch=4, width=16, layers=1, heads=2, inner=24)
NAMES = ("cats", "dogs", "fish")
TRAINING = "--train.device cpu --train.precision fp32 --train.accumulate 1 --train.batch_tokens 4 --train.save_every 1"


def train(run: Path, data: str, out: Path, more: str) -> int:
    words = f"--init {run} --data {data} --out {out} {TRAINING} {more}".split()
    return main(["train", "vit-ti16", *words])


@pytest.mark.parametrize("names", [NAMES, ("cars", "trucks")], ids=["the same classes", "others"])
def test_everything_is_taken_over_but_a_head_for_other_classes(names, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    run = write_run(tmp_path / "run", SMALL)
    still = "--train.steps 1 --train.evaluate_every 1 --train.learning_rate 1e-12 --task.size 20"
    assert train(run, photos(tmp_path / "data", names), tmp_path / "out", still) == 0
    assert "positions resized from (3, 3) to (5, 5) patches" in capsys.readouterr().err
    before, after = (headway.load(each, device="cpu") for each in (run, tmp_path / "out"))
    assert (after.config.model.image, after.config.model.classes) == (20, len(names))
    assert (after.config.task.mean, after.config.task.size) == (before.config.task.mean, 20)
    old, new = before.model.state_dict(), after.model.state_dict()
    assert torch.allclose(new["positions"], resize_grid(old["positions"], (3, 3), (5, 5)), atol=1e-6)
    for name in old.keys() - {"positions", "head.weight", "head.bias"}:
        assert torch.allclose(new[name], old[name], atol=1e-6), name
    if names == NAMES:
        assert torch.allclose(new["head.weight"], old["head.weight"], atol=1e-6)
    else:
        assert new["head.weight"].shape == (2, 16)


def test_a_checkpoint_counts_for_more_than_the_start(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    run, data = write_run(tmp_path / "run", SMALL), photos(tmp_path / "data", NAMES)
    rate = "--train.evaluate_every 1 --train.learning_rate 0.01"
    assert train(run, data, tmp_path / "out", f"--train.steps 1 {rate}") == 0
    capsys.readouterr()
    assert train(run, data, tmp_path / "out", f"--train.steps 2 {rate} --resume") == 0
    said = capsys.readouterr().err
    assert "resuming at step 1" in said
    assert "starting from" not in said
    assert Checkpoints(tmp_path / "out").steps()[-1] == 2


def test_what_is_no_vision_transformer_is_refused(tmp_path):
    config = read_config(write_run(tmp_path / "run", SMALL))
    with pytest.raises(
        ConfigError, match=r"model vit, which a model convnet cannot begin with; allowed: a run with a con"
    ):
        fine_tuned(preset("convnet").recipe(), config, tmp_path / "run")
    wider = replace(config, model=replace(SMALL, width=32))
    with pytest.raises(ConfigError, match="has shape"):
        start_from(build_model(wider.model), wider, tmp_path / "run")
