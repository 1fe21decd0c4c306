"""Images or sounds with their classes as a classification task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from headway.data.config import DataConfig
from headway.data.datasets import load_images
from headway.data.digests import check_digests
from headway.data.files import listed
from headway.data.images import ImageReading, Images, ImageStore, Progress, class_subset
from headway.tasks.base import DataRequest, Prepared
from headway.tasks.image_classification.config import Classification
from headway.tasks.image_classification.training import ClassificationTraining


def prepare(config: Classification, request: DataRequest) -> Prepared:
    """Images with their classes and digests by split; of `data.share` below 1, that part of the training images."""
    images = read_images(config, request.data, request.progress, to_train=True)
    check_digests(images.contents, request.expected)
    if request.data.share < 1.0:
        part = class_subset(images.splits["train"], request.data.share)
        images = replace(images, splits={**images.splits, "train": part})
    facts = {
        config.unit: ", ".join(f"{name} {len(store):,}" for name, store in images.splits.items()),
        "classes": f"{len(images.classes)}: {listed(images.classes, most=10)}",
    }
    bad = images.left_out
    left_out = [f"{len(bad):,} that cannot be read ({bad[0]}{', …' if len(bad) > 1 else ''})"] if bad else []
    left_out += [images.unread] if images.unread else []
    left_out += [f"training images beyond data.share={request.data.share}"] if request.data.share < 1.0 else []
    if left_out:
        facts["left out"] = ", ".join(left_out)
    return Prepared(
        training=_training(config, request, images),
        model_overrides={"classes": len(images.classes)},
        classes=images.classes,
        digests=images.contents,
        facts=facts,
    )


def read(config: Classification, request: DataRequest) -> ClassificationTraining:
    """The data of a finished run, of the same splits as in training; of other data all, as one split."""
    if request.own_data:
        return prepare(config, request).training  # type: ignore[return-value]
    data = replace(request.data, val="")
    return _training(config, request, read_images(config, data, request.progress, to_train=False))


def stand_in(config: Classification, request: DataRequest) -> ClassificationTraining:
    """Black images of the first class, enough for full batches."""
    count = 2 * request.batch_tokens
    # One image in memory, however many rows it is seen as.
    pixels = np.broadcast_to(np.zeros((), np.uint8), (count, config.channels, config.size, config.size))
    return ClassificationTraining(
        config,
        ("a",),
        {"train": ImageStore(pixels, np.zeros(count, np.int64))},
        batch_tokens=request.batch_tokens,
        seed=request.seed,
        compiled=request.compiled,
    )


def read_images(config: Classification, data: DataConfig, progress: Progress, *, to_train: bool) -> Images:
    """The images or sounds of a data config."""
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


def _training(config: Classification, request: DataRequest, images: Images) -> ClassificationTraining:
    return ClassificationTraining(
        config,
        images.classes,
        images.splits,
        batch_tokens=request.batch_tokens,
        seed=request.seed,
        compiled=request.compiled,
    )
