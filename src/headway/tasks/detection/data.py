"""Images of objects with boxes as a detection task."""

from __future__ import annotations

from pathlib import Path

from headway.counts import counted
from headway.data.boxes import BoxImages, BoxReading
from headway.data.datasets import load_boxes
from headway.data.digests import check_digests
from headway.data.files import listed
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Prepared
from headway.tasks.detection.config import Detection
from headway.tasks.detection.training import DetectionTraining


def prepare(config: Detection, request: DataRequest) -> Prepared:
    """Images with their objects, classes and digests by split. Raises ConfigError for more objects than queries."""
    images = _read(config, request, to_train=True)
    check_digests(images.contents, request.expected)
    return Prepared(
        training=_training(config, request, images),
        model_overrides={"classes": len(images.classes)},
        classes=images.classes,
        digests=images.contents,
        facts={
            "images": ", ".join(f"{name} {len(store):,}" for name, store in images.splits.items()),
            "objects": ", ".join(f"{name} {store.objects:,}" for name, store in images.splits.items()),
            "classes": f"{len(images.classes)}: {listed(images.classes, most=10)}",
        },
    )


def read(config: Detection, request: DataRequest) -> DetectionTraining:
    """The data of a finished run, of the same splits as in training; of other data all splits as they are."""
    if request.own_data:
        return prepare(config, request).training  # type: ignore[return-value]
    return _training(config, request, _read(config, request, to_train=False))


def _read(config: Detection, request: DataRequest, *, to_train: bool) -> BoxImages:
    reading = BoxReading(
        size=config.size,
        cache=Path(request.data.cache).expanduser(),
        classes=request.data.classes,
        to_train=to_train,
    )
    return load_boxes(request.data.spec, reading, request.progress)


def _patches(request: DataRequest) -> int | None:
    vision = getattr(request.model, "vision", None)
    return None if vision is None else int(vision.tokens)


def _training(config: Detection, request: DataRequest, images: BoxImages) -> DetectionTraining:
    queries = int(getattr(request.model, "queries", 0))
    for split, store in images.splits.items():
        if store.most > queries:
            many = f"an image of {split} has {counted(store.most, 'object')}, model.queries={queries}"
            raise ConfigError(f"{many}: each object needs a query; pass --model.queries {store.most} or more")
        if config.patch_weight and (patches := _patches(request)) is not None and store.most > patches:
            many = f"an image of {split} has {counted(store.most, 'object')}, and {patches} patches"
            raise ConfigError(f"{many}: their loss needs one for each; pass --task.patch_weight 0, or a smaller patch")
    return DetectionTraining(
        config, images.classes, images.splits, batch_tokens=request.batch_tokens, seed=request.seed
    )
