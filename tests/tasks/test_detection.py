from __future__ import annotations

import numpy as np
import pytest
import torch

import headway
from headway.config import override
from headway.data import boxes as data
from headway.data.boxes import BoxReading, BoxStore, load_scattered_shapes
from headway.errors import ConfigError, DataError
from headway.models import DetrConfig, VitConfig, build_model
from headway.nn.patches import Patches
from headway.ops.boxes import from_corners, generalised_iou, to_corners
from headway.presets import PRESETS
from headway.runs.train import train_run
from headway.tasks.detection import Detection
from headway.tasks.detection import training as module
from headway.tasks.detection.set_loss import Weights, match, set_loss
from headway.tasks.detection.training import DetectionTraining, found_boxes, true_boxes
from tests.training.small import Silent

CPU = torch.device("cpu")
WEIGHTS = Weights(classes=1.0, distance=5.0, overlap=2.0, nothing=0.1)


def silent(what, done, total):
    pass


def drawn(rows: int, queries: int, objects: int, seed: int = 0):
    """Logits (P, N, 4), boxes (P, N, 4) and targets (P, M, 5), of which every third is missing."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, queries, 4, generator=generator)

    def some(count):
        low, high = torch.rand(2, rows, count, 2, generator=generator).sort(0).values
        return from_corners(torch.cat([low, high], -1))

    classes = torch.randint(3, (rows, objects, 1), generator=generator)
    targets = torch.cat([some(objects), classes.float()], -1)
    targets[:, ::3, 4] = -1
    return logits, some(queries), targets


def parts(found) -> torch.Tensor:
    return torch.stack([found.classes, found.distance, found.overlap])


# --- the set loss ---------------------------------------------------------------------------------------------------


def test_the_order_of_objects_changes_nothing():
    logits, boxes, targets = drawn(4, 8, 6)
    before = parts(set_loss(logits, boxes, targets, WEIGHTS))
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(parts(set_loss(logits, boxes, targets[:, order], WEIGHTS)), before)


def test_the_order_of_queries_changes_nothing():
    logits, boxes, targets = drawn(4, 8, 6)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    before = parts(set_loss(logits, boxes, targets, WEIGHTS))
    torch.testing.assert_close(parts(set_loss(logits[:, order], boxes[:, order], targets, WEIGHTS)), before)


def test_places_without_an_object_change_nothing():
    logits, boxes, targets = drawn(3, 8, 4)
    more = torch.cat([targets, torch.tensor([0.3, 0.3, 0.2, 0.2, -1.0]).expand(3, 5, 5)], 1)
    torch.testing.assert_close(
        parts(set_loss(logits, boxes, more, WEIGHTS)), parts(set_loss(logits, boxes, targets, WEIGHTS))
    )


def test_a_row_costs_alike_alone_and_among_others():
    logits, boxes, targets = drawn(5, 7, 4)
    whole = parts(set_loss(logits, boxes, targets, WEIGHTS))
    each = sum(parts(set_loss(logits[n : n + 1], boxes[n : n + 1], targets[n : n + 1], WEIGHTS)) for n in range(5))
    torch.testing.assert_close(each, whole)


def test_an_image_without_objects_costs_only_its_no_objects():
    logits, boxes, targets = drawn(2, 5, 3)
    targets[..., 4] = -1
    found = set_loss(logits.requires_grad_(), boxes.requires_grad_(), targets, WEIGHTS)
    assert (match(logits, boxes, targets, WEIGHTS) == -1).all()
    expected = -0.1 * logits.log_softmax(-1)[..., -1].sum()
    torch.testing.assert_close(found.classes, expected)
    assert (found.distance.item(), found.overlap.item()) == (0.0, 0.0)
    (found.classes + found.distance + found.overlap).backward()
    assert not boxes.grad.any()


def test_predictions_that_are_right_cost_nothing():
    _, _, targets = drawn(2, 6, 6, seed=3)
    boxes = targets[..., :4].flip(1).contiguous()
    labels = targets[..., 4].flip(1).long()
    logits = torch.full((2, 6, 4), -30.0).scatter(2, torch.where(labels < 0, 3, labels)[..., None], 30.0)
    assert (match(logits, boxes, targets, WEIGHTS)[0] == torch.tensor([-1, 4, 3, -1, 1, 0])).all()
    assert parts(set_loss(logits, boxes, targets, WEIGHTS)).tolist() == pytest.approx([0, 0, 0], abs=1e-4)


def test_the_loss_is_that_of_the_formula():
    """By hand, over the one assignment of one object that costs least."""
    logits, boxes, targets = drawn(1, 4, 2, seed=5)
    target = targets[0, 1]
    label = int(target[4])
    chances = logits[0].softmax(-1)
    costs = []
    for n in range(4):
        away = float((boxes[0, n] - target[:4]).abs().sum())
        alike = float(overlap(boxes[0, n], target[:4]))
        costs.append(-float(chances[n, label]) + 5 * away - 2 * alike)
    best = int(np.argmin(costs))
    assert match(logits, boxes, targets, WEIGHTS).tolist() == [[-1, best]]
    found = set_loss(logits, boxes, targets, WEIGHTS)
    entropy = sum(-float(chances[n, label].log()) if n == best else -0.1 * float(chances[n, 3].log()) for n in range(4))
    assert float(found.classes) == pytest.approx(entropy, rel=1e-5)
    assert float(found.distance) == pytest.approx(float((boxes[0, best] - target[:4]).abs().sum()), rel=1e-5)
    assert float(found.overlap) == pytest.approx(1 - float(overlap(boxes[0, best], target[:4])), rel=1e-5)


def overlap(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return generalised_iou(to_corners(first), to_corners(second))


def test_nan_predictions_give_a_nan_loss():
    logits, boxes, targets = drawn(2, 6, 4)
    logits[0, 1, 2] = torch.nan
    assert set_loss(logits, boxes, targets, WEIGHTS).classes.isnan()


# --- training and evaluation ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "COUNTS", {"train": 24, "val": 10})
        return load_scattered_shapes(BoxReading(size=32, cache=tmp_path_factory.mktemp("boxes")), silent)


def made(splits, **settings) -> DetectionTraining:
    config = Detection(size=32, **settings)
    return DetectionTraining(config, splits.classes, splits.splits, batch_tokens=6, seed=0)


def detector(**more) -> torch.nn.Module:
    sizes = {"queries": 8, "image": 32, "patch": 8, "patches": Patches(), "width": 32, "heads": 2, "inner": 64}
    return build_model(DetrConfig(classes=8, encoder_layers=1, decoder_layers=2, dropout=0.0, **{**sizes, **more}))


class Knowing(torch.nn.Module):
    """A model that gives the objects it was told, each by a query."""

    def __init__(self, targets: np.ndarray, classes: int) -> None:
        super().__init__()
        self.targets, self.classes, self.at = torch.from_numpy(targets), classes, 0

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.at += len(images)
        rows = self.targets[self.at - len(images) : self.at]
        labels = rows[..., 4].long()
        places = torch.where(labels < 0, self.classes, labels)[..., None]
        return torch.full((*labels.shape, self.classes + 1), -20.0).scatter(2, places, 20.0), rows[..., :4]


def test_objects_that_are_right_score_one_and_lose_nothing(splits, monkeypatch):
    monkeypatch.setattr(module, "EVALUATED", 4)
    task = made(splits)
    found = task.validate(Knowing(task.targets["val"], 8), CPU)
    assert found.loss < 1e-4
    assert found.beside == pytest.approx({"val_ap": 1.0, "val_ap50": 1.0})
    report = task.evaluate(Knowing(task.targets["val"], 8), CPU, "val")
    assert (report.images, report.objects) == (10, splits.splits["val"].objects)
    with pytest.raises(DataError, match="no split 'test', there are train, val"):
        task.evaluate(detector(), CPU, "test")


def test_a_loss_on_every_layer_and_on_the_patches(splits):
    model = detector()
    batch = made(splits).batch(np.arange(6))
    assert batch.count == 6
    last, layers, patches = (
        made(splits, **settings).loss(model, batch)
        for settings in ({"auxiliary": False, "patch_weight": 0.0}, {"patch_weight": 0.0}, {})
    )
    for name in ("class", "distance", "overlap"):
        assert last[name].total < layers[name].total < patches[name].total
    assert {name: term.weight for name, term in last.items()} == {"class": 1.0, "distance": 5.0, "overlap": 2.0}
    half = made(splits, patch_weight=0.5).loss(model, batch)
    between = (layers["overlap"].total + patches["overlap"].total) / 2
    torch.testing.assert_close(half["overlap"].total, between)


def test_a_few_images_are_learnt_by_heart(splits):
    torch.manual_seed(0)
    task, model = made(splits), detector()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batch = task.batch(np.arange(4))
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = sum(term.weight * term.total for term in task.loss(model, batch).values())
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.4 * losses[0]
    assert "; there: " in task.samples(model.eval(), CPU)[0]


def test_detections_are_in_pixels_of_the_original():
    logits = torch.tensor([[[0.0, 5.0, 0.0], [9.0, 0.0, 0.0]]])
    boxes = torch.tensor([[[0.5, 0.5, 0.2, 0.4], [0.25, 0.5, 0.5, 1.0]]])
    (found,) = found_boxes(logits, boxes, np.array([200.0]))
    assert found.classes.tolist() == [0, 1]  # the surest first
    np.testing.assert_allclose(found.boxes, [[0, 0, 100, 200], [80, 60, 40, 80]], atol=1e-4)


def test_crowds_are_no_targets_but_are_evaluated():
    store = BoxStore(
        np.zeros((1, 3, 8, 8), np.uint8), np.array([0.5], np.float32), np.array([0, 2]),
        np.array([[0, 0, 8, 8], [2, 2, 4, 4]], np.float32), np.array([0, 0]), np.array([64, 16], np.float32),
        np.array([1, 0], np.uint8),
    )  # fmt: skip
    assert store.most == 1
    np.testing.assert_allclose(store.targets(1), [[[0.25, 0.25, 0.25, 0.25, 0]]])
    (there,) = true_boxes(store)
    assert there.crowds.tolist() == [True, False]


# --- settings -------------------------------------------------------------------------------------------------------


def test_settings_that_make_no_sense():
    with pytest.raises(ConfigError, match=r"task.nothing_weight=-1.0, allowed: 0 and above"):
        Detection(nothing_weight=-1.0)
    with pytest.raises(ConfigError, match=r"task.size=64, model.image=32: expected the same"):
        Detection(size=64).check_model(DetrConfig(classes=2, image=32, patch=32))
    with pytest.raises(ConfigError, match="allowed for an object detector: detr"):
        Detection(size=64).check_model(VitConfig(classes=2, image=64))


@pytest.mark.slow  # 2,000 steps, four minutes of one core, and 15 seconds to draw the images
def test_the_preset_finds_held_out_shapes(tmp_path):
    config = override(PRESETS["detr-shapes"].recipe(), {"data.cache": str(tmp_path / "cache"), "train.device": "cpu"})
    train_run(config, tmp_path / "run", Silent())
    assert headway.load(tmp_path / "run", device="cpu").evaluate(split="test").values["ap50"] >= 0.9
