"""`train.keep_looks`: what attention was while a run trained, which the training itself does not notice."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.errors import ConfigError
from headway.inspection.page.kept_looks import kept_looks, look_path, looks_over
from headway.reliability.runs import TINY
from headway.runs.train import train_run
from headway.training.callbacks import SilentCallback
from headway.training.log import LOG, read_log
from tests.pages import payload_of

SIZE = {"model.context": 64}
STEPS = {"train.steps": 6, "train.evaluate_every": 3, "train.save_every": 3, "train.ema": 0.9}


def run_of(folder: Path, name: str, task: str = "language", **changes: Any) -> Path:
    changed = {f"train.{key}": value for key, value in changes.items()}
    config = TINY[task].config(folder / "cache", {**SIZE, **STEPS, **changed})
    train_run(config, folder / name)
    return folder / name


def told(run: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in each.items() if key != "seconds"} for each in read_log(run / LOG)]


def test_a_run_with_looks_is_the_same_to_the_bit(tmp_path):
    plain, looked = run_of(tmp_path, "plain"), run_of(tmp_path, "looked", keep_looks="I like cats")
    assert told(plain) == told(looked)
    for step in (3, 6):
        name = f"checkpoints/step-{step:08d}/model.safetensors"
        assert (plain / name).read_bytes() == (looked / name).read_bytes()
    assert [look["step"] for look in kept_looks(looked)] == [0, 1, 2, 3, 4, 6]
    assert not (plain / "looks").exists()


def test_a_look_holds_the_weights_of_its_checkpoint(tmp_path):
    run = run_of(tmp_path, "run", keep_looks="I like cats")
    by_step = {look["step"]: look for look in kept_looks(run)}
    loaded = headway.load(run, device="cpu")
    log = {each["step"]: each["val_loss"] for each in read_log(run / LOG) if "val_loss" in each}
    for step in (3, 6):
        pipeline = loaded.at(step)
        explanation = pipeline.explain("I like cats")
        with headway.capture(pipeline.model, what=["weights"]) as seen, torch.no_grad():
            logits = explanation.forward()
        look = by_step[step]
        assert look["loss"] == log[step]
        for attention in look["attentions"]:
            data = np.frombuffer(base64.b64decode(attention["weights"]), "<f4").reshape(attention["shape"])
            captured = seen.last[f"{attention['name']}.weights"][0]
            np.testing.assert_allclose(data, captured.numpy(), atol=1e-6)
        shares = logits.log_softmax(-1)
        for place, target in enumerate(explanation.output.targets):
            if target is not None:
                assert look["log_probabilities"][place] == pytest.approx(float(shares[place, target]), abs=2e-6)


def test_a_translation_is_looked_at_with_its_target(tmp_path):
    run = run_of(tmp_path, "run", "translation", keep_looks="a cat ||| un chat")
    looks = kept_looks(run)
    tokens = [look["sequences"] for look in looks]
    assert all(each == tokens[0] for each in tokens)
    assert {each["kind"] for each in looks[0]["attentions"]} == {"self", "cross"}
    page = tmp_path / "page.html"
    headway.load(run, device="cpu").look(out=page)  # without an input: that of the looks
    lapse = payload_of(page)["time_lapse"]
    assert lapse["given"] == "a cat"
    assert [each["step"] for each in lapse["looks"]] == [0, 1, 2, 3, 4, 6]
    headway.load(run, device="cpu").look("a dog", out=page)
    assert "time_lapse" not in payload_of(page)
    headway.load(run, device="cpu").look("a dog", out=page, over_training=True)
    assert [each["step"] for each in payload_of(page)["time_lapse"]["looks"]] == [3, 6]


def test_checkpoints_are_looked_at_with_the_tokens_of_the_last(tmp_path):
    loaded = headway.load(run_of(tmp_path, "run", "translation"), device="cpu")
    looks = looks_over([loaded.at(3), loaded.at(6)], "a cat")
    assert looks[0]["sequences"] == looks[1]["sequences"]
    assert looks[0]["attentions"][0]["weights"] != looks[1]["attentions"][0]["weights"]


def test_a_damaged_look_is_left_out(tmp_path):
    run = run_of(tmp_path, "run", keep_looks="I like cats")
    look_path(run, 2).write_text('{"step": 2, "given": "I like cats"}')
    path = look_path(run, 4)
    path.write_text(path.read_text().replace('"shape": [', '"shape": [9, '))
    look_path(run, 1).write_text("<script>")
    assert [look["step"] for look in kept_looks(run)] == [0, 3, 6]


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        ("language", "I ||| like", "reads no source"),
        ("translation", " ||| un chat", "empty"),
        ("language", "cats " * 60, "sequence of up to"),
    ],
)
def test_an_input_that_cannot_be_looked_at_is_told_before_the_first_step(task, text, message, tmp_path):
    class Steps(SilentCallback):
        taken = 0

        def step(self, entry: dict[str, Any]) -> None:
            self.taken += 1

    watcher = Steps()
    config = TINY[task].config(tmp_path / "cache", {**SIZE, **STEPS, "train.keep_looks": text})
    with pytest.raises(headway.errors.HeadwayError, match=message):
        train_run(config, tmp_path / "run", watcher)
    assert watcher.taken == 0
    assert not (tmp_path / "run").exists()


def test_a_model_without_attention_keeps_no_looks(tmp_path):
    config = TINY["language"].config(tmp_path / "cache", {**STEPS, "train.keep_looks": "I", "train.shard": "full"})
    with pytest.raises(ConfigError, match="no rank has the whole model"):
        train_run(config, tmp_path / "run")
