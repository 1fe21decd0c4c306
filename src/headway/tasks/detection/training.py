"""Training on objects with boxes: a set loss, evaluated by COCO's average precision (Lin et al. 2014).

The loss is that of Carion et al. 2020 but for its division: its sums are divided by the images of a batch, not by its
objects, so that several micro-batches equal one large one. Images are neither flipped nor cropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.data.augment import constants
from headway.data.batching import Indices, Shuffled
from headway.data.boxes import BoxStore
from headway.metrics.detection import DetectionReport, FoundBoxes, TrueBoxes, detection_report
from headway.ops.boxes import to_corners
from headway.tasks.base import named_split
from headway.tasks.detection.config import Detection
from headway.tasks.detection.set_loss import SetLoss, Weights, set_loss
from headway.tasks.image_batches import model_dtype
from headway.tasks.sharing import in_one, values_in_parts
from headway.tasks.training_task import Batch, Term, Validated

EVALUATED = 128  # images in one forward pass of an evaluation
SURE = 0.5  # score from which an object is named in a line of text
MEAN = STD = (0.5, 0.5, 0.5)


class Detector(Protocol):
    """What this task asks of a model."""

    def features_by_layer(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The encoder's output (B, T, D), and that of each layer of the decoder (B, N, D)."""
        ...

    def predict_patches(self, hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, T, classes + 1) and boxes (B, T, 4) of the encoder's output."""
        ...

    def predict(self, hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, N, classes + 1) and boxes (B, N, 4)."""
        ...


@dataclass(frozen=True, slots=True)
class DetectionPredictions:
    """What a model finds in the images of a split, the surest first, and the summed loss."""

    found: list[FoundBoxes]
    loss: float


class DetectionTraining:
    """Batches of images with the boxes and classes of their objects, and the predictions of a model on a split."""

    fixed_shapes = True

    def __init__(
        self,
        config: Detection,
        classes: tuple[str, ...],
        splits: Mapping[str, BoxStore],
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        self.config, self.classes, self.splits = config, classes, dict(splits)
        self.weights = Weights(
            classes=config.class_weight,
            distance=config.distance_weight,
            overlap=config.overlap_weight,
            nothing=config.nothing_weight,
        )
        # Data that is only evaluated may have no split to train on.
        first = self.splits.get("train", next(iter(self.splits.values())))
        self.order = Shuffled(len(first), batch_tokens, seed)
        most = max(max(store.most for store in self.splits.values()), 1)
        self.targets = {name: store.targets(most) for name, store in self.splits.items()}

    def batch(self, indices: Indices) -> Batch:
        """Images (B, 3, S, S) as bytes and objects (B, M, 5): a box and its class, -1 for padding."""
        pixels = torch.from_numpy(self.splits["train"].pixels[indices])
        return Batch((pixels,), torch.from_numpy(self.targets["train"][indices]), len(indices))

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The parts of the set loss, summed over the layers of the decoder that have one, and of the patches."""
        (images,) = batch.inputs
        assert images is not None
        detector: Detector = model  # type: ignore[assignment]
        patches, layers = detector.features_by_layer(_normalised(images))
        layers = layers if self.config.auxiliary else layers[-1:]
        targets = batch.targets.repeat(len(layers), 1, 1)
        found = set_loss(*detector.predict(torch.cat(layers)), targets, self.weights)
        if self.config.patch_weight:
            more = set_loss(*detector.predict_patches(patches), batch.targets, self.weights)
            found = found.plus(more, self.config.patch_weight)
        return self._terms(found, batch.count)

    def _terms(self, found: SetLoss, count: int) -> dict[str, Term]:
        return {
            "class": Term(found.classes, count, self.weights.classes),
            "distance": Term(found.distance, count, self.weights.distance),
            "overlap": Term(found.overlap, count, self.weights.overlap),
        }

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """The loss of an image over the whole validation split, and the average precision."""
        predictions = self.predictions(model, device, "val")
        report = self.report(predictions, "val")
        beside = {"val_ap": report.ap["all"] or 0.0, "val_ap50": report.ap_at[0.5] or 0.0}
        return Validated(predictions.loss / len(self.splits["val"]), beside)

    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> DetectionReport:
        """COCO's figures of a split."""
        return self.report(self.predictions(model, device, split), split)

    @torch.no_grad()
    def predictions(self, model: nn.Module, device: torch.device, split: str) -> DetectionPredictions:
        """The objects found in each image of a split, in pixels of the original. Raises DataError for its name."""
        store, found, loss = named_split(self.splits, split), list[FoundBoxes](), 0.0

        def computed(rows: slice) -> Tensor:
            logits, boxes = outputs_of(model, device, torch.from_numpy(np.array(store.pixels[rows])))
            targets = torch.from_numpy(self.targets[split][rows]).to(device)
            terms = self._terms(set_loss(logits, boxes, targets, self.weights), len(logits))
            nats = sum(term.weight * float(term.total) for term in terms.values())
            return in_one(torch.tensor(nats, dtype=torch.float64), torch.cat([boxes, logits], -1).cpu())

        batches = [slice(at, at + EVALUATED) for at in range(0, len(store), EVALUATED)]
        for rows, values in zip(batches, values_in_parts(batches, computed), strict=True):
            scales = store.scales[rows].astype(np.float64)
            loss += float(values[0])
            outputs = values[1:].float().view(len(scales), -1, 4 + len(self.classes) + 1)
            found += found_boxes(outputs[..., 4:], outputs[..., :4], self.config.size / scales)
        return DetectionPredictions(found, loss)

    def report(self, predictions: DetectionPredictions, split: str) -> DetectionReport:
        """COCO's figures of predictions."""
        return detection_report(predictions.found, true_boxes(self.splits[split]), len(self.classes))

    @torch.no_grad()
    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """What is found in the first image of the validation split that has an object, beside what is there."""
        store = self.splits["val"]
        first = int((np.diff(store.starts) > 0).argmax())
        one = slice(first, first + 1)
        (found,) = found_boxes(
            *outputs_of(model, device, torch.from_numpy(np.array(store.pixels[one]))),
            self.config.size / store.scales[one].astype(np.float64),
        )
        sure = [self.classes[label] for label in found.classes[found.scores >= SURE]]
        there = [self.classes[label] for label in store.classes[store.starts[first] : store.starts[first + 1]]]
        return [f"found {', '.join(sure) or 'nothing'}; there: {', '.join(there) or 'nothing'}"]


def outputs_of(model: nn.Module, device: torch.device, images: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes (B, 3, S, S) -> logits (B, N, classes + 1) and boxes (B, N, 4), in float32 whatever the model's type."""
    logits, boxes = model(_normalised(images.to(device)).to(model_dtype(model)))
    return logits.float(), boxes.float()


def found_boxes(logits: Tensor, boxes: Tensor, sides: NDArray[np.float64]) -> list[FoundBoxes]:
    """A detection for each query, the surest first: its likeliest class, however likely "no object" is.

    `sides` (B,) are the pixels of the original that a stored image's side stands for.
    """
    scores, classes = logits.softmax(-1)[..., :-1].max(-1)
    corners = to_corners(boxes)
    shape = torch.cat([corners[..., :2], corners[..., 2:] - corners[..., :2]], -1).double().cpu().numpy()
    made = []
    for number, side in enumerate(sides):
        own = scores[number].double().cpu().numpy()
        order = np.argsort(-own, kind="stable")
        labels = classes[number].cpu().numpy()[order]
        made.append(FoundBoxes(boxes=shape[number][order] * side, classes=labels, scores=own[order]))
    return made


def true_boxes(store: BoxStore) -> list[TrueBoxes]:
    """The objects of each image."""
    made = []
    for first, last in zip(store.starts, store.starts[1:], strict=False):
        rows = slice(first, last)
        made.append(
            TrueBoxes(
                boxes=store.boxes[rows].astype(np.float64),
                classes=store.classes[rows],
                areas=store.areas[rows].astype(np.float64),
                crowds=store.crowds[rows].astype(bool),
            )
        )
    return made


def _normalised(images: Tensor) -> Tensor:
    return constants(MEAN, STD, images.device).normalised(images)
