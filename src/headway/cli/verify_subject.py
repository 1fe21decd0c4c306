"""A run as the subject of `headway verify`: its inputs, and the other forms its model can be had in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from torch import nn

from headway.data.builtin import a_few_images, load_parallel, load_text
from headway.data.files import read_bytes
from headway.data.pictures import Picture, decoded
from headway.errors import ConfigError, HeadwayError
from headway.interop.checks import Subject
from headway.interop.exporting import round_trip
from headway.interop.inputs import MOST, Room, continued, made, noise, seen, written
from headway.interop.kinds import KINDS, Example, ImageKind, Kind, TextKind
from headway.interop.reference import REFERENCE
from headway.models import VitConfig
from headway.runs import Run, load
from headway.tasks.classification import Classification
from headway.tasks.pose import PoseEstimation
from headway.tasks.translation import Translation

OWN = 2  # lines or images of the run's validation data


def subject_of(found: Run, given: Sequence[str] = (), *, compiled: bool = False) -> Subject:
    """A run with its inputs: these texts or image files, else made-up ones and the first of its validation data."""
    if isinstance(found.config.task, PoseEstimation):
        raise ConfigError(f"{found.folder} is a pose model; verify checks models of text and classifiers")
    kind, examples = (_images if isinstance(found.config.task, Classification) else _texts)(found, given)

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
    if type(found.config.task) not in KINDS:
        raise ConfigError(f"{found.folder} reads images and writes text; verify checks models of text and classifiers")
    kind = KINDS[type(found.config.task)](found.config.task, found.tokenizers)
    room = Room.of(kind, found.model)
    examples = written(kind, texts, room) if texts else [*_lines(found, kind, room), *made(kind, room)]
    if len({len(each.tokens) for each in examples}) < 2:  # a batch of one length has no padding
        examples += made(kind, room)[:2]
    return kind, continued(found.model, kind, examples, room)


def _images(found: Run, files: Sequence[str]) -> tuple[Kind, list[Example]]:
    task, model = found.config.task, found.config.model
    assert isinstance(task, Classification)
    kind = ImageKind(task)
    size = model.size if isinstance(model, VitConfig) else (task.size, task.size)
    if files:
        pictures = (Picture(name, 0, read_bytes(Path(name))) for name in files[:MOST])
        how = None if task.sound is None else task.sound.decode
        examples = seen(kind, decoded(pictures, task.size, how))
    else:
        examples = _pictures(found, kind) if task.sound is None else []
    if len(examples) < 2 or not files:  # a batch of one has no other rows
        examples += noise(kind, found.model.channels, size)  # type: ignore[arg-type]
    return kind, [each.to(found.device) for each in examples]


def _lines(found: Run, kind: TextKind, room: Room) -> list[Example]:
    """The first lines of the run's validation data; none where it is no longer to be had."""
    data = found.config.data
    if not data.spec:  # imported
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


def _pictures(found: Run, kind: ImageKind) -> list[Example]:
    """A few of the run's own images; none where they are no longer to be had."""
    data = found.config.data
    if not data.spec:
        return []
    try:
        return seen(kind, a_few_images(data.spec, data.classes, count=OWN, size=kind.config.size))
    except HeadwayError as error:
        _note("images", error)
        return []


def _note(what: str, error: HeadwayError) -> None:
    print(f"headway: note: no {what} of the run's own data ({error}): made-up inputs only", file=sys.stderr)
