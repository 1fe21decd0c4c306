"""Training on keypoints: the squared error of heat maps, evaluated by COCO's average precision (Lin et al. 2014)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.augment import constants
from headway.data.batching import Indices, Shuffled
from headway.data.heatmaps import heatmaps, keypoints_of
from headway.data.poses import PoseStore
from headway.metrics.keypoints import Detections, KeypointReport, People, keypoint_report
from headway.tasks.base import named_split
from headway.tasks.image_batches import model_dtype
from headway.tasks.pose.config import PoseEstimation
from headway.tasks.training_task import Batch, Term, Validated

EVALUATED = 128  # images in one forward pass of an evaluation
MEAN = STD = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True)
class PosePredictions:
    """A model's keypoints on a split: places (N, K, 2) in pixels, the heat there (N, K), the summed squared error."""

    places: Tensor
    heights: Tensor
    loss: float


class PoseTraining:
    """Batches of images with the heat maps of their keypoints, and the predictions of a model on a split."""

    fixed_shapes = True

    def __init__(
        self, config: PoseEstimation, splits: Mapping[str, PoseStore], *, batch_tokens: int, seed: int
    ) -> None:
        self.config, self.splits = config, dict(splits)
        self.order = Shuffled(len(splits["train"]), batch_tokens, seed)

    def batch(self, indices: Indices) -> Batch:
        """Images (B, 3, S, S) as bytes and keypoints (B, K, 3): x, y, and whether each is labelled."""
        train = self.splits["train"]
        pixels, keypoints = torch.from_numpy(train.pixels[indices]), torch.from_numpy(train.keypoints[indices])
        return Batch((pixels,), keypoints, len(indices))

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The squared error of a cell, its mean over a map, summed over the keypoints that are labelled."""
        (images,) = batch.inputs
        assert images is not None
        maps = model(_normalised(images))
        return {"map": Term(self._errors(maps, batch.targets).sum(), batch.count)}

    def _errors(self, maps: Tensor, keypoints: Tensor) -> Tensor:
        """The mean squared error of each map of (B, K, rows, columns), as (B, K); 0 where it is not labelled."""
        size = (maps.shape[2], maps.shape[3])
        wanted = heatmaps(keypoints[:, :, :2], image=self.config.image, size=size, spread=self.config.spread)
        return (maps.float() - wanted).square().mean((2, 3)) * (keypoints[:, :, 2] > 0)

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """The loss of an image over the whole validation split, and the average precision."""
        found = self.predictions(model, device, "val")
        report = self.report(found, "val")
        return Validated(found.loss / len(self.splits["val"]), {"val_oks_ap": report.ap["all"] or 0.0})

    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> KeypointReport:
        """COCO's figures of a split."""
        return self.report(self.predictions(model, device, split), split)

    @torch.no_grad()
    def predictions(self, model: nn.Module, device: torch.device, split: str) -> PosePredictions:
        """The keypoints of each image of a split. Raises DataError for an unknown split."""
        store = named_split(self.splits, split)
        places: list[Tensor] = []
        heights: list[Tensor] = []
        loss = torch.zeros((), dtype=torch.float64, device=device)
        for at in range(0, len(store), EVALUATED):
            rows = slice(at, at + EVALUATED)
            maps = maps_of(model, device, torch.from_numpy(np.array(store.pixels[rows])))
            loss += self._errors(maps, torch.from_numpy(store.keypoints[rows]).to(device)).sum()
            for into, found in zip((places, heights), keypoints_of(maps, image=self.config.image), strict=True):
                into.append(found.cpu())
        return PosePredictions(torch.cat(places), torch.cat(heights), float(loss))

    def report(self, predictions: PosePredictions, split: str) -> KeypointReport:
        """COCO's figures of predictions; a person's score is the mean heat of its keypoints."""
        store = self.splits[split]
        places, scores = predictions.places.double().numpy(), predictions.heights.double().mean(1).numpy()
        keypoints, areas, boxes = (each.astype(np.float64) for each in (store.keypoints, store.areas, store.boxes))
        one = [slice(n, n + 1) for n in range(len(store))]
        return keypoint_report(
            [Detections(places=places[n], scores=scores[n]) for n in one],
            [People(keypoints=keypoints[n], areas=areas[n], boxes=boxes[n]) for n in one],
        )

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """The mean distance of predicted keypoints of the validation split, in pixels."""
        store = self.splits["val"]
        away = torch.linalg.vector_norm(
            self.predictions(model, device, "val").places - torch.from_numpy(store.keypoints[:, :, :2]), dim=-1
        )
        seen = torch.from_numpy(store.keypoints[:, :, 2] > 0)
        return [f"keypoints are off by {float(away[seen].mean()):.2f} pixels of {self.config.size}"]


def maps_of(model: nn.Module, device: torch.device, images: Tensor) -> Tensor:
    """Bytes (B, 3, S, S) -> heat maps (B, K, rows, columns) in float32, whatever the model computes in."""
    maps: Tensor = model(_normalised(images.to(device)).to(model_dtype(model)))
    return maps.float()


def _normalised(images: Tensor) -> Tensor:
    return constants(MEAN, STD, images.device).normalised(images)
