"""The pixel scaling and the class names of an image classifier's folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headway.errors import BadModelError, shown
from headway.interop.model_folder import ModelFolder
from headway.tasks.image_classification import Classification

HALF = [0.5, 0.5, 0.5]


def image_task(folder: ModelFolder, shape: tuple[int, int, int]) -> Classification:
    """How images of (channels, height, width) are scaled: as preprocessor_config.json or timm's `pretrained_cfg` say.

    Without either, to -1 … 1. Raises BadModelError.
    """
    channels, height, width = shape
    if height != width or channels != 3:
        where = folder.named("config.json")
        raise BadModelError(f"{where}: images of {(height, width)} with {channels} channels, allowed: square ones of 3")
    given = folder.settings("preprocessor_config.json") or {}
    older = folder.config.get("pretrained_cfg")
    timm: Mapping[str, Any] = older if isinstance(older, Mapping) else {}
    mean = given.get("image_mean", timm.get("mean", HALF))
    std = given.get("image_std", timm.get("std", HALF))
    for name, value, least in (("image_mean", mean, -math.inf), ("image_std", std, 0.0)):
        if not isinstance(value, list) or len(value) != 3 or not all(_number(each, least) for each in value):
            raise BadModelError(
                f"{folder.named('preprocessor_config.json')}: {name} {shown(value)}, expected three numbers"
            )
    return Classification(size=height, mean=tuple(map(float, mean)), std=tuple(map(float, std)))


def _number(value: object, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > least


def class_names(folder: ModelFolder, classes: int) -> tuple[str, ...]:
    """The names of the classes in config.json, by number; their numbers if it has none."""
    names = folder.config.get("id2label") or {}
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise BadModelError(f"{folder.named('config.json')}: id2label {shown(names)}, expected a name for each number")
    found = tuple(names.get(str(index), str(index)) for index in range(classes))
    return found if len(set(found)) == classes else tuple(map(str, range(classes)))
