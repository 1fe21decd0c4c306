"""Recognising images or sounds with classes: class folders, IDX files, parquet with images."""

from __future__ import annotations

from pathlib import Path

from headway.data.datasets import kinds_of
from headway.data.image_survey import ImageSurvey, survey_images
from headway.tasks.proposal import Confidence, Proposal

IMAGES, SOUNDS = "sl-vit-tiny", "audio-vit"
SIZES = (32, 48, 64)  # pixels a side, of which the images' own is rounded up; larger ones take a CPU too long
PATCHES = 8  # a side
BATCH = 64
EPOCHS = 30
STEPS = (300, 3500)  # at least, at most: the preset's own


def recognise(spec: str) -> Proposal | None:
    """What to train on images or sounds with classes."""
    kinds = kinds_of(spec)
    if kinds:
        known = [preset for kind, preset in (("images", IMAGES), ("sounds", SOUNDS)) if kind in kinds]
        sign = f"the built-in set {spec}"
        return _proposal(known[0], kinds[0], sign, {}) if known else None
    found = survey_images(Path(spec).expanduser())
    if found is None:
        return None
    sure = Confidence.FORMAT if found.whole else Confidence.CONTENT
    if found.sounds:
        return _proposal(SOUNDS, "sounds with classes", found.sign, {}, sure)
    return _proposal(IMAGES, "images with classes", found.sign, _settings(found), sure)


def _settings(found: ImageSurvey) -> dict[str, object]:
    """The size of the images, in as many patches as the preset has; a few dozen passes over them."""
    size = next((each for each in SIZES if found.side <= each), SIZES[-1])
    steps = min(max(10 * round(EPOCHS * found.count / BATCH / 10), STEPS[0]), STEPS[1])
    settings: dict[str, object] = {}
    if size != SIZES[0]:
        settings = {"task.size": size, "model.image": size, "model.patch": size // PATCHES}
    if found.grey:  # digits and letters are others in a mirror
        settings["task.augment.flip"] = False
    if steps < STEPS[1]:
        warmup, every = max(steps // 20, 1), steps // 5
        settings |= {"train.steps": steps, "train.schedule.warmup": warmup}
        settings |= {"train.evaluate_every": every, "train.save_every": every}
    return settings


def _proposal(
    preset: str, found: str, sign: str, settings: dict[str, object], sure: Confidence = Confidence.FORMAT
) -> Proposal:
    return Proposal(preset=preset, found=found, sign=sign, confidence=sure, settings=settings)
