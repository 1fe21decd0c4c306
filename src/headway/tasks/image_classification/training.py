"""Image classification: bytes and classes, augmented on the device, judged by how many are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.augment import Augmentation, constants
from headway.data.batching import Indices, Shuffled
from headway.data.config import DataConfig
from headway.data.datasets import load_images
from headway.data.digests import check_digests
from headway.data.images import ImageReading, Images, ImageStore, Progress, class_subset
from headway.data.spectrograms import Spectrogram
from headway.errors import ConfigError, DataError
from headway.models import Vit
from headway.tasks.classifier import Guesses, Judged
from headway.tasks.image_batches import TrainingImages, check_colours
from headway.tasks.training_task import Batch, Term, cross_entropy

EVALUATED = 256  # images in one forward pass of an evaluation; more where they are small and there is a GPU to fill
SHOWN = 3  # samples of a validation


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """Square images of one size, or sounds as such, each of one class."""

    size: int = 32  # pixels a side: the shorter side is resized to it, the centre cut out
    sound: Spectrogram | None = None  # what is read are sounds: pictures of one channel
    augment: Augmentation | None = None
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)  # of each channel from 0 to 1, subtracted
    std: tuple[float, ...] = (0.5, 0.5, 0.5)  # and divided by

    def __post_init__(self) -> None:
        check_colours(self.size, self.mean, self.std, self.channels)
        if self.sound is not None and self.augment is not None:  # a flip would turn time round
            raise ConfigError("task.augment is for images, allowed with task.sound: none")

    @property
    def channels(self) -> int:
        """Of what a model is shown."""
        return 3 if self.sound is None else 1


class ClassificationTraining(Judged):
    """Batches of images, and how often a model names their class."""

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
        """These images, picked, and their classes (B,)."""
        labels = torch.from_numpy(self.splits["train"].labels[indices])
        return Batch((self.images.picked(indices),), labels, len(indices))

    @property
    def resident(self) -> bool:
        """Whether all training images live on the device, and a batch is their numbers."""
        return self.images.small

    def stream(self, step: int, device: torch.device) -> torch.Generator:
        """What augmentation draws from in a step, put to its beginning."""
        return self.images.stream(step, device)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Cross-entropy of the classes; of a mixed image, in the shares of its two."""
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
    def guesses(self, model: nn.Module, device: torch.device, split: str) -> Guesses:
        """What the model makes of a split."""
        if split not in self.splits:
            raise DataError(f"no split {split!r}, there are {', '.join(self.splits)}")
        store = self.splits[split]
        chances, nats = [], torch.zeros((), dtype=torch.float64, device=device)
        labels = torch.from_numpy(store.labels)
        small = 1 if device.type == "cpu" else max(1, 64**2 // self.config.size**2)
        for rows in _runs(len(store), small * EVALUATED):
            logits = logits_of(model, device, torch.from_numpy(np.array(store.pixels[rows])), self.config)
            nats += F.cross_entropy(logits, labels[rows].to(device), reduction="sum").double()
            chances.append(logits.softmax(-1))
        return Guesses(torch.cat(chances).cpu(), labels, float(nats))

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """What some images of the validation split are taken for."""
        store = self.splits["val"]
        rows = np.unique(np.linspace(0, len(store) - 1, SHOWN).astype(np.int64))
        with torch.no_grad():
            logits = logits_of(model, device, torch.from_numpy(np.array(store.pixels[rows])), self.config)
        return [self.said(int(label), each) for label, each in zip(store.labels[rows], logits, strict=True)]


def logits_of(model: nn.Module, device: torch.device, images: Tensor, config: Classification) -> Tensor:
    """Bytes (B, C, H, W) -> logits (B, classes) in float32, whatever the model computes in."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    known = constants(config.mean, config.std, device)
    logits = _logits(model, known.normalised(images.to(device)).to(dtype))
    return logits.float()


def _logits(model: nn.Module, images: Tensor) -> Tensor:
    logits: Tensor = model.logits(images) if isinstance(model, Vit) else model(images)
    return logits


def _runs(count: int, size: int) -> Iterator[slice]:
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


def read_images(config: Classification, data: DataConfig, progress: Progress, *, to_train: bool) -> Images:
    """The images a run is told to read."""
    reading = ImageReading(
        size=config.size,
        classes=data.classes,
        val=data.val,
        skip_bad=data.skip_bad,
        to_train=to_train,
        cache=Path(data.cache).expanduser(),
        sound=config.sound,
    )
    return load_images(data.spec, reading, progress)


def prepare_classification(
    config: Classification,
    data: DataConfig,
    *,
    batch_tokens: int,
    seed: int,
    compiled: bool = False,
    to_train: bool = True,
    expected: Mapping[str, str] | None = None,
    progress: Progress = lambda what, done, total: None,
) -> tuple[ClassificationTraining, Images]:
    """Images as a task, and the images themselves with their classes and contents."""
    images = read_images(config, data, progress, to_train=to_train)
    check_digests(images.contents, expected)
    if to_train and data.share < 1.0:
        images = replace(images, splits={**images.splits, "train": class_subset(images.splits["train"], data.share)})
    task = ClassificationTraining(
        config, images.classes, images.splits, batch_tokens=batch_tokens, seed=seed, compiled=compiled
    )
    return task, images
