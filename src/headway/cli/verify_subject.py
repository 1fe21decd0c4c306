"""A run as the subject of `headway verify`: its inputs, and the other forms its model can be had in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from torch import Tensor, nn

from headway.data.datasets import load_parallel, load_text, sample_captioned_images, sample_images
from headway.data.files import read_bytes
from headway.data.image_decoding import EncodedImage, Pixels, decode_images
from headway.errors import ConfigError, HeadwayError
from headway.interop.exporter import round_trip
from headway.interop.hf_reference import REFERENCE
from headway.models import PoseConfig, VitConfig
from headway.runs import Run, load
from headway.tasks.captioning import Captioning
from headway.tasks.decision_transformer.training import Deciding
from headway.tasks.image_classification import Classification
from headway.tasks.pose import PoseEstimation
from headway.tasks.pose.training import MEAN, STD
from headway.tasks.text_classification.training import TextClassification
from headway.tasks.translation.training import Translation
from headway.tasks.world_model.training import WorldModel
from headway.verification.checks import Subject
from headway.verification.image_kinds import CaptionKind, HeatMapKind, ImageKind
from headway.verification.inputs import MOST, Room, continued, described, made, noise, seen, written
from headway.verification.kinds import KINDS, Example, Kind, TextKind

Looking = Classification | Captioning | PoseEstimation
OWN = 2  # lines or images of the run's validation data


def subject_of(found: Run, given: Sequence[str] = (), *, compiled: bool = False) -> Subject:
    """A run with its inputs: these texts or image files, else made-up ones and the first of its validation data."""
    if isinstance(found.config.task, WorldModel | Deciding):
        raise ConfigError(f"{found.folder} acts in an environment: `verify` is for what reads text or images")
    kind, examples = READERS.get(type(found.config.task), _texts)(found, given)

    def precise(precision: str) -> nn.Module:
        return load(found.folder, device=found.device.type, precision=precision).model  # type: ignore[arg-type]

    return Subject(
        model=found.model,
        kind=kind,
        examples=examples,
        precise=precise,
        round_trip=lambda: round_trip(found),
        reference=found.folder / REFERENCE,
        compiled=compiled,
    )


def _texts(found: Run, texts: Sequence[str]) -> tuple[Kind, list[Example]]:
    kind = KINDS[type(found.config.task)](found.config.task, found.tokenizers)
    room = Room.of(kind, found.model)
    examples = written(kind, texts, room) if texts else [*_lines(found, kind, room), *made(kind, room)]
    if len({len(each.tokens) for each in examples}) < 2:  # a batch of one length has no padding
        examples += made(kind, room)[:2]
    return kind, continued(found.model, kind, examples, room)


def _images(found: Run, files: Sequence[str]) -> tuple[Kind, list[Example]]:
    kind = HeatMapKind() if isinstance(found.config.task, PoseEstimation) else ImageKind()
    return kind, [kind.example(image).to(found.device) for image in _looked_at(found, files)]


def _captions(found: Run, files: Sequence[str]) -> tuple[Kind, list[Example]]:
    """What is said of the images so far is made up, of unequal length."""
    assert isinstance(found.config.task, Captioning)
    kind = CaptionKind(found.config.task, found.tokenizers)
    room = Room.of(kind, found.model)
    examples = described(_looked_at(found, files), made(kind, room))
    return kind, continued(found.model, kind, examples, room)


def _looked_at(found: Run, files: Sequence[str]) -> list[Tensor]:
    """These image files, normalised; without any, a few of the run's own and noise."""
    task, model = found.config.task, found.config.model
    assert isinstance(task, Looking)
    if files:
        pictures = (EncodedImage(name, 0, read_bytes(Path(name))) for name in files[:MOST])
        sound = task.sound if isinstance(task, Classification) else None
        images = _seen(task, decode_images(pictures, task.size, None if sound is None else sound.decode))
    else:
        images = _pictures(found, task)
    if len(images) < 2 or not files:  # a batch of one has no other rows
        size = model.size if isinstance(model, VitConfig | PoseConfig) else (task.size, task.size)
        images += noise(model.channels, size)  # type: ignore[attr-defined]
    return images


def _seen(task: Looking, images: Sequence[Pixels]) -> list[Tensor]:
    mean, std = (MEAN, STD) if isinstance(task, PoseEstimation) else (task.mean, task.std)
    return seen(images, mean, std)


def _lines(found: Run, kind: TextKind, room: Room) -> list[Example]:
    """The first lines of the run's validation data; none where it is no longer to be had."""
    data = found.config.data
    if not data.spec or isinstance(found.config.task, TextClassification):  # imported, or in a table of classes
        return []
    try:
        if isinstance(found.config.task, Translation):
            text = load_parallel(data.spec, data.source, data.target, errors=data.errors)
            lines = ["\t".join(pair) for pair in islice(text.pairs("val"), OWN)]
        else:
            chunk = next(load_text(data.spec, errors=data.errors).chunks("val"), "")
            lines = [line for line in chunk.splitlines() if line.strip()][:OWN]
        return written(kind, lines, room)
    except HeadwayError as error:
        _note("lines", error)
        return []


def _pictures(found: Run, task: Looking) -> list[Tensor]:
    """A few of the run's own images; none of sounds and poses, nor where they are no longer to be had."""
    data = found.config.data
    if not data.spec or isinstance(task, PoseEstimation):
        return []
    try:
        if isinstance(task, Captioning):
            return _seen(task, sample_captioned_images(data.spec, count=OWN, size=task.size))
        if task.sound is not None:
            return []
        return _seen(task, sample_images(data.spec, data.classes, count=OWN, size=task.size))
    except HeadwayError as error:
        _note("images", error)
        return []


def _note(what: str, error: HeadwayError) -> None:
    print(f"headway: note: no {what} of the run's own data ({error}): made-up inputs only", file=sys.stderr)


# What reads the inputs of a task; that of any other reads text.
READERS = {Classification: _images, PoseEstimation: _images, Captioning: _captions}
