from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from headway.data.augment import Augmentation, augmented, constants
from headway.data.autoaugment import AutoAugment
from headway.data.batching import Shuffled
from headway.data.config import DataConfig
from headway.data.images import Images, ImageStore
from headway.data.synthetic.shapes import SHAPES, scenes
from headway.errors import ConfigError, DataError
from headway.metrics.classification import ClassificationReport, confusion_matrix, wilson_interval
from headway.models import ConvnetConfig, VitConfig, build_model
from headway.tasks import image_batches as training_images
from headway.tasks.base import DataRequest
from headway.tasks.image_classification import Classification
from headway.tasks.image_classification import data as classification_data
from headway.tasks.image_classification import training as classification
from headway.tasks.image_classification.training import ClassificationTraining
from headway.training.config import TrainConfig
from headway.training.trainer import Trainer
from tests.training.small import Silent, state_hash

CPU = torch.device("cpu")
FULL = Augmentation(policy=AutoAugment(), erase=0.25, mix=0.5)


def store(count: int, seed: int) -> ImageStore:
    drawn = scenes(count, size=16, seed=seed)
    return ImageStore(drawn.pixels, drawn.shapes)


def made(augment: Augmentation | None = None, *, batch: int = 8) -> ClassificationTraining:
    splits = {"train": store(40, 0), "val": store(20, 1)}
    return ClassificationTraining(Classification(size=16, augment=augment), SHAPES, splits, batch_tokens=batch, seed=3)


def vit(classes: int = len(SHAPES)) -> torch.nn.Module:
    return build_model(VitConfig(classes=classes, image=16, patch=4, width=16, layers=1, heads=2, inner=32))


def test_an_epoch_has_each_image_once_in_batches_that_are_full():
    order = Shuffled(40, 12, seed=1)
    batches = order.epoch(0)
    assert [len(batch) for batch in batches] == [12, 12, 12]
    assert len(set(np.concatenate(batches))) == 36
    assert not np.array_equal(order.epoch(0)[0], order.epoch(1)[0])
    assert np.array_equal(order.epoch(1)[0], Shuffled(40, 12, seed=1).epoch(1)[0])
    assert len(Shuffled(5, 12, seed=0).epoch(0)[0]) == 5


def test_the_loss_is_the_same_from_the_device_s_table_and_from_batches(monkeypatch):
    model, rows = vit(), np.array([3, 1, 5, 9])
    kept = made(FULL)
    monkeypatch.setattr(training_images, "RESIDENT", 0)
    sent = made(FULL)
    assert kept.batch(rows).inputs[0].shape == (4,)
    assert sent.batch(rows).inputs[0].shape == (4, 3, 16, 16)
    losses = [task.loss(model, task.batch(rows), step=4)["class"].total for task in (kept, sent)]
    assert torch.equal(*losses)


def test_the_loss_is_that_of_the_logits():
    model, task = vit(), made()
    torch.nn.init.normal_(model.head.weight)
    batch = task.batch(np.arange(6))
    images = task.splits["train"].pixels[:6] / np.float32(127.5) - 1
    expected = torch.nn.functional.cross_entropy(
        model(torch.from_numpy(images)), batch.targets, reduction="sum", label_smoothing=0.1
    )
    term = task.loss(model, batch, smoothing=0.1)["class"]
    torch.testing.assert_close(term.total, expected)
    assert term.count == 6


def test_step_and_micro_batch_decide_what_augmentation_draws():
    task = made(FULL)
    first, second = task.images._draws(4, CPU, 7), task.images._draws(4, CPU, 7)
    assert not torch.equal(first, second)
    assert not torch.equal(task.images._draws(4, CPU, 8), first)
    again = made(FULL)
    assert torch.equal(again.images._draws(4, CPU, 7), first)
    assert torch.equal(again.images._draws(4, CPU, 7), second)


def test_a_mixed_image_has_the_loss_of_both_classes_in_their_shares():
    task, model = made(Augmentation(flip=False, crop=0, mix=1.0)), vit()
    torch.nn.init.normal_(model.head.weight, std=3.0)
    batch = task.batch(np.arange(8))
    for step in range(3):
        draws = made(task.config.augment).images._draws(8, CPU, step)
        known = constants(task.config.mean, task.config.std, CPU)
        mixed = augmented(task.config.augment, torch.from_numpy(task.splits["train"].pixels[:8]), draws, known)
        one_hot = torch.nn.functional.one_hot(batch.targets, len(SHAPES)).float()
        soft = mixed.share[:, None] * one_hot + (1 - mixed.share)[:, None] * one_hot[mixed.partner]
        expected = torch.nn.functional.cross_entropy(model(mixed.images), soft, reduction="sum", label_smoothing=0.1)
        torch.testing.assert_close(task.loss(model, batch, smoothing=0.1, step=step)["class"].total, expected)
        assert 0 < mixed.share.min() <= mixed.share.max() < 1


def train(folder, steps: int, *, resume: bool = False) -> Trainer:
    config = TrainConfig(
        steps=steps, batch_tokens=8, accumulate=2, evaluate_every=2, save_every=2, device="cpu", label_smoothing=0.1
    )
    model = build_model(ConvnetConfig(classes=len(SHAPES), widths=(4, 8), blocks=1))  # with running statistics
    folder.mkdir(exist_ok=True)
    trainer = Trainer(model, made(FULL), config, folder, Silent())
    if resume:
        assert trainer.resume()
    trainer.train()
    return trainer


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    whole = train(tmp_path / "whole", 6)
    train(tmp_path / "parts", 4)
    assert state_hash(train(tmp_path / "parts", 6, resume=True)) == state_hash(whole)
    entries = [json.loads(line) for line in (tmp_path / "parts" / "log.jsonl").read_text().splitlines()]
    found = [entry for entry in entries if "val_loss" in entry]
    assert [entry["step"] for entry in found] == [2, 4, 6]
    assert all(0 <= entry["val_accuracy"] <= 1 for entry in found)


def test_a_few_images_are_learnt_by_heart():
    task = made(batch=40)
    model = build_model(ConvnetConfig(classes=len(SHAPES), widths=(16, 32), blocks=1))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batch = task.batch(np.arange(40))
    for _ in range(70):
        optimiser.zero_grad()
        loss = task.loss(model, batch)["class"].total / 40
        loss.backward()
        optimiser.step()
    assert loss < 0.2
    task.splits["val"] = task.splits["train"]
    assert task.evaluate(model.eval(), CPU, "val").accuracy > 0.95


def test_an_evaluation_does_not_depend_on_its_batches(monkeypatch):
    task, model = made(), vit().eval()
    torch.nn.init.normal_(model.head.weight)
    whole = task.evaluate(model, CPU, "val")
    monkeypatch.setattr(classification, "EVALUATED", 7)
    parts = task.evaluate(model, CPU, "val")
    assert parts.loss == pytest.approx(whole.loss, rel=1e-6)
    assert np.array_equal(parts.confusion, whole.confusion)
    assert task.validate(model, CPU).loss == parts.loss
    assert len(task.samples(model, CPU)) == 3
    half = task.evaluate(model.bfloat16(), CPU, "val")
    assert half.loss == pytest.approx(whole.loss, rel=0.05)
    with pytest.raises(DataError, match="no split 'test', there are train, val"):
        task.evaluate(model, CPU, "test")


def test_the_report_counts():
    counted = confusion_matrix(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 0]), 4)
    report = ClassificationReport(classes=("a", "b", "c", "d"), confusion=counted, nats=5.0)
    assert report.accuracy == 3 / 5
    assert report.loss == 1.0
    assert report.by_class == [0.5, 1.0, 0.0, None]
    assert report.mistakes(5) == [("a", "b", 1), ("c", "a", 1)]
    values = report.to_json()
    assert values["images"] == 5
    assert values["accuracy_low"] < 0.6 < values["accuracy_high"]


def test_a_share_of_train_is_trained_on_and_the_rest_stays_whole(monkeypatch, tmp_path):
    found = Images(name="", classes=SHAPES, splits={"train": store(400, 0), "val": store(20, 1)}, contents={})
    monkeypatch.setattr(classification_data, "read_images", lambda *args, **kwargs: found)
    model = VitConfig(classes=1, image=16, patch=4, width=16, layers=1, heads=2, inner=32)
    request = DataRequest(data=DataConfig(share=0.25), model=model, folder=tmp_path, batch_tokens=8, seed=0)
    prepared = Classification(size=16).prepare(request)
    train = len(prepared.training.splits["train"])
    assert train == pytest.approx(100, abs=4)
    assert len(prepared.training.splits["val"]) == 20
    assert prepared.classes == SHAPES
    assert prepared.model_overrides == {"classes": len(SHAPES)}
    assert prepared.facts["images"] == f"train {train}, val 20"
    assert prepared.facts["classes"].startswith(f"{len(SHAPES)}: {SHAPES[0]}, ")
    assert prepared.facts["left out"] == "training images beyond data.share=0.25"
    with pytest.raises(ConfigError, match=r"data.share=0.0, allowed: above 0, at most 1"):
        DataConfig(share=0.0)


def test_wilson_s_interval():
    assert wilson_interval(0, 10) == (0.0, pytest.approx(0.27753, abs=1e-4))
    assert wilson_interval(81, 263) == (
        pytest.approx(0.25524, abs=1e-4),
        pytest.approx(0.36622, abs=1e-4),
    )  # Newcombe 1998
    low, high = wilson_interval(10, 10)
    assert low == pytest.approx(0.72247, abs=1e-4)
    assert high == pytest.approx(1.0)
    with pytest.raises(DataError, match="3 right of 2"):
        wilson_interval(3, 2)


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"size": 0}, r"task.size=0"),
        ({"mean": (0.5,)}, r"task.mean=\(0.5,\), expected three numbers"),
        ({"std": (0.5, 0.0, 0.5)}, r"task.std=.*, allowed: above 0"),
    ],
)
def test_invalid_settings(settings, wrong):
    with pytest.raises(ConfigError, match=wrong):
        Classification(**settings)
