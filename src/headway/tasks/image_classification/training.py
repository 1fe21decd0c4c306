"""Training on images with one class each: augmented on the device, evaluated by accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.augment import constants
from headway.data.batching import Indices, Shuffled
from headway.data.images import ImageStore
from headway.tasks.base import named_split
from headway.tasks.classifier import ClassifierTraining, Predictions
from headway.tasks.image_batches import TrainingImages, model_dtype
from headway.tasks.image_classification.config import Classification
from headway.tasks.sharing import in_one, values_in_parts
from headway.tasks.training_task import Batch, Term, cross_entropy

EVALUATED = 256  # images in one forward pass of an evaluation; more where they are small and there is a GPU to fill
SHOWN = 3  # samples of a validation


class ClassificationTraining(ClassifierTraining):
    """Batches of images with their classes, and the predictions of a model on a split."""

    fixed_shapes = True

    def __init__(
        self,
        config: Classification,
        classes: tuple[str, ...],
        splits: Mapping[str, ImageStore],
        *,
        batch_tokens: int,
        seed: int,
        compiled: bool = False,
    ) -> None:
        self.config, self.classes, self.splits = config, classes, dict(splits)
        self.order = Shuffled(len(splits["train"]), batch_tokens, seed)
        self.images = TrainingImages(
            splits["train"].pixels, config.augment, config.mean, config.std, seed=seed, compiled=compiled
        )

    def batch(self, indices: Indices) -> Batch:
        """These images, by index or as pixels, and their classes (B,)."""
        labels = torch.from_numpy(self.splits["train"].labels[indices])
        return Batch((self.images.picked(indices),), labels, len(indices))

    @property
    def resident(self) -> bool:
        """Whether all training images are kept on the device, and a batch holds their indices."""
        return self.images.small

    @property
    def most_targets(self) -> None:
        """Each image has one class."""

    def stream(self, step: int, device: torch.device) -> torch.Generator:
        """The random stream of a step's augmentation, at its beginning."""
        return self.images.stream(step, device)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Cross-entropy of the classes; of a mixed image, the mean of both classes by their shares."""
        (given,) = batch.inputs
        assert given is not None
        labels, mixed = batch.targets, self.images.prepared(given, step)
        logits = _logits(model, mixed if isinstance(mixed, Tensor) else mixed.images)
        if isinstance(mixed, Tensor) or not (self.config.augment and self.config.augment.mix):
            return {"class": Term(cross_entropy(logits, labels, smoothing), batch.count)}
        # The loss is linear in its target: a mixed one needs no table of shares, smoothed or not.
        own, other = (
            F.cross_entropy(logits.float(), each, reduction="none", label_smoothing=smoothing)
            for each in (labels, labels[mixed.partner])
        )
        return {"class": Term((mixed.share * own + (1 - mixed.share) * other).sum(), batch.count)}

    @torch.no_grad()
    def predictions(self, model: nn.Module, device: torch.device, split: str) -> Predictions:
        """The probabilities of all classes for each image of a split. Raises DataError for an unknown split."""
        store = named_split(self.splits, split)
        labels = torch.from_numpy(store.labels)
        small = 1 if device.type == "cpu" else max(1, 64**2 // self.config.size**2)

        def scored(rows: slice) -> Tensor:
            logits = logits_of(model, device, torch.from_numpy(np.array(store.pixels[rows])), self.config)
            nats = F.cross_entropy(logits, labels[rows].to(device), reduction="sum")
            return in_one(nats, logits.softmax(-1))

        found = values_in_parts(_slices(len(store), small * EVALUATED), scored)
        probabilities = torch.cat([values[1:] for values in found]).view(len(store), -1).float()
        return Predictions(probabilities, labels, sum(float(values[0]) for values in found))

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """Some images of the validation split: their class beside the predicted one."""
        store = self.splits["val"]
        rows = np.unique(np.linspace(0, len(store) - 1, SHOWN).astype(np.int64))
        with torch.no_grad():
            logits = logits_of(model, device, torch.from_numpy(np.array(store.pixels[rows])), self.config)
        return [self.sample(int(label), each) for label, each in zip(store.labels[rows], logits, strict=True)]


def logits_of(model: nn.Module, device: torch.device, images: Tensor, config: Classification) -> Tensor:
    """Bytes (B, C, H, W) -> logits (B, classes) in float32, whatever the model computes in."""
    known = constants(config.mean, config.std, device)
    logits = _logits(model, known.normalised(images.to(device)).to(model_dtype(model)))
    return logits.float()


def _logits(model: nn.Module, images: Tensor) -> Tensor:
    # A vision transformer's `logits` is cheaper than its `forward`; other models have none.
    logits: Tensor = getattr(model, "logits", model)(images)
    return logits


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(at, min(at + size, count)) for at in range(0, count, size))
