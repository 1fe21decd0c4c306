"""Average precision and recall of boxes, as COCO defines them (Lin et al. 2014; pycocotools' `bbox` evaluation)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError
from headway.metrics.average_precision import RECALLS, THRESHOLDS, Bounds, Compared, Flags, Floats, Matches

DETECTIONS = (1, 10, 100)  # of an image and class, those with the highest scores
AREAS: dict[str, Bounds] = {  # square pixels
    "all": (0.0, 1e10),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueBoxes:
    """The objects of an image: boxes (G, 4) as x, y, width, height; classes and areas (G,); which are crowds (G,).

    An area is that of the object, which may be smaller than its box.
    """

    boxes: Floats
    classes: NDArray[np.int64]
    areas: Floats
    crowds: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBoxes:
    """The detections in an image: boxes (P, 4) as x, y, width, height; classes and scores (P,)."""

    boxes: Floats
    classes: NDArray[np.int64]
    scores: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionReport:
    """COCO's figures of boxes; None where no object is in a range of areas."""

    ap: dict[str, float | None]  # by range of areas: the mean over thresholds, recalls and classes
    ap_at: dict[float, float | None]  # by threshold, all areas
    recall: dict[str, float | None]  # by range of areas, of 100 detections: the mean over thresholds and classes
    recall_of: dict[int, float | None]  # by detections of an image, all areas
    by_class: tuple[float | None, ...]  # the average precision of each class
    curves: Floats  # precision at 101 recalls of each threshold, the mean over classes (thresholds, recalls)
    images: int
    objects: int  # without crowds

    def to_json(self) -> dict[str, Any]:
        """The object that `headway evaluate --json` prints, but for the classes, whose names are not known here."""
        return {
            "ap": self.ap["all"],
            "ap50": self.ap_at[0.5],
            "ap75": self.ap_at[0.75],
            **{f"ap_{name}": self.ap[name] for name in AREAS if name != "all"},
            **{f"ar{most}": found for most, found in self.recall_of.items()},
            **{f"ar_{name}": self.recall[name] for name in AREAS if name != "all"},
            "images": self.images,
            "objects": self.objects,
        }


def box_overlaps(found: Floats, true: Floats, crowds: Flags) -> Floats:
    """Intersection over union of boxes (P, 4) and (G, 4) as x, y, width, height -> (P, G); of a crowd, over the
    detection's own area.
    """
    low = np.maximum(found[:, None, :2], true[None, :, :2])
    high = np.minimum(found[:, None, :2] + found[:, None, 2:], true[None, :, :2] + true[None, :, 2:])
    inside = np.maximum(high - low, 0).prod(-1)
    own, other = found[:, 2:].prod(1)[:, None], true[:, 2:].prod(1)[None]
    whole = np.where(crowds, own, own + other - inside)
    overlaps: Floats = np.divide(inside, whole, out=np.zeros_like(inside), where=inside > 0)
    return overlaps


def detection_report(found: Sequence[FoundBoxes], true: Sequence[TrueBoxes], classes: int) -> DetectionReport:
    """Average precision and recall of the detections of each image, of classes numbered from 0.

    Raises DataError unless there are as many as images, at least one.
    """
    if len(found) != len(true) or not true:
        raise DataError(f"detections of {len(found)} images for {len(true)}: expected the same, at least one")
    matches = {(number, name): Matches(bounds) for number in range(classes) for name, bounds in AREAS.items()}
    for each, there in zip(found, true, strict=True):
        for number, compared in _by_class(each, there):
            for name in AREAS:
                matches[number, name].add(compared)
    precision = {key: each.precision() for key, each in matches.items()}
    fewer = {most: [matches[k, "all"].precision(most)[1] for k in range(classes)] for most in DETECTIONS}

    def of_area(name: str, which: int) -> list[Floats | None]:
        return [precision[number, name][which] for number in range(classes)]

    at = [each for each in of_area("all", 0) if each is not None]
    curves = np.mean(at, 0) if at else np.zeros((len(THRESHOLDS), len(RECALLS)))
    return DetectionReport(
        ap={name: _mean(of_area(name, 0)) for name in AREAS},
        ap_at={round(float(t), 2): float(curves[n].mean()) if at else None for n, t in enumerate(THRESHOLDS)},
        recall={name: _mean(of_area(name, 1)) for name in AREAS},
        recall_of={most: _mean(each) for most, each in fewer.items()},
        by_class=tuple(None if each is None else float(each.mean()) for each in of_area("all", 0)),
        curves=curves,
        images=len(true),
        objects=sum(int((~each.crowds).sum()) for each in true),
    )


def _by_class(found: FoundBoxes, true: TrueBoxes) -> Iterator[tuple[int, Compared]]:
    """The detections and objects of each class that an image has any of."""
    for number in map(int, np.union1d(found.classes, true.classes)):
        own, there = found.classes == number, true.classes == number
        order = np.argsort(-found.scores[own], kind="stable")[: DETECTIONS[-1]]
        boxes, crowds = found.boxes[own][order], true.crowds[there]
        yield (
            number,
            Compared(
                scores=found.scores[own][order],
                own_areas=boxes[:, 2] * boxes[:, 3],
                areas=true.areas[there],
                ignored=crowds,
                crowds=crowds,
                alike=box_overlaps(boxes, true.boxes[there], crowds),
            ),
        )


def _mean(found: Sequence[Floats | None]) -> float | None:
    """The mean over the classes that have any."""
    there = [each for each in found if each is not None]
    return float(np.mean(there)) if there else None
