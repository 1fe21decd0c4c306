from __future__ import annotations

import numpy as np
import pytest
import torch

from headway.data.heatmaps import heatmaps
from headway.data.poses import PoseStore
from headway.data.synthetic.stick_figures import figures
from headway.errors import ConfigError, DataError
from headway.models import PoseConfig, build_model
from headway.models.pose import ClassicHead
from headway.tasks.pose import PoseEstimation
from headway.tasks.pose import training as module
from headway.tasks.pose.training import PoseTraining

CPU = torch.device("cpu")


def store(count: int, seed: int) -> PoseStore:
    drawn = figures(count, size=32, seed=seed)
    return PoseStore(drawn.pixels, drawn.keypoints, drawn.areas)


def made(batch: int = 6) -> PoseTraining:
    splits = {"train": store(24, 0), "val": store(10, 1)}
    return PoseTraining(PoseEstimation(size=32, spread=1.0), splits, batch_tokens=batch, seed=0)


def model() -> torch.nn.Module:
    head = ClassicHead(width=16)
    return build_model(PoseConfig(image=32, patch=8, width=32, layers=1, heads=2, inner=64, head=head))


class Knowing(torch.nn.Module):
    """A model that gives maps it was told."""

    def __init__(self, maps: torch.Tensor) -> None:
        super().__init__()
        self.maps, self.at = maps, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.at += len(images)
        return self.maps[self.at - len(images) : self.at]


def test_maps_that_are_right_score_one_and_lose_nothing(monkeypatch):
    monkeypatch.setattr(module, "EVALUATED", 4)
    task = made()
    val = task.splits["val"]
    maps = heatmaps(torch.from_numpy(val.keypoints[:, :, :2]), image=(32, 32), size=(16, 16), spread=1.0)
    found = task.validate(Knowing(maps), CPU)
    assert found.loss < 1e-9
    assert found.beside["val_oks_ap"] > 0.99
    assert task.evaluate(Knowing(maps), CPU, "val").people == 10
    with pytest.raises(DataError, match="no split 'test', there are train, val"):
        task.evaluate(model(), CPU, "test")


def test_what_is_not_labelled_carries_no_loss():
    task, some = made(), model()
    batch = task.batch(np.arange(6))
    before = task.loss(some, batch)["map"]
    batch.targets[:, 4, 2] = 0
    less = task.loss(some, batch)["map"].total
    batch.targets[:, 4, :2] += 7
    assert task.loss(some, batch)["map"].total == less < before.total
    assert before.count == 6


def test_a_few_figures_are_learnt_by_heart():
    torch.manual_seed(0)
    task, some = made(batch=4), model()
    optimiser = torch.optim.AdamW(some.parameters(), lr=5e-3)
    batch = task.batch(np.arange(4))
    losses = []
    for _ in range(80):
        optimiser.zero_grad()
        loss = task.loss(some, batch)["map"].total / 4
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    assert "keypoints are off by" in task.samples(some.eval(), CPU)[0]


def test_boxes_are_those_of_the_labelled_keypoints():
    drawn = store(4, 3)
    keypoints = drawn.keypoints.copy()
    keypoints[0, :, 2] = 0
    boxes = PoseStore(drawn.pixels, keypoints, drawn.areas).boxes
    assert boxes[0].tolist() == [0, 0, 0, 0]
    low, high = keypoints[1, :, :2].min(0), keypoints[1, :, :2].max(0)
    np.testing.assert_allclose(boxes[1], [*low, *(high - low)], rtol=1e-6)


def test_settings_that_make_no_sense():
    with pytest.raises(ConfigError, match=r"task.spread=0.0, allowed: above 0"):
        PoseEstimation(spread=0.0)
