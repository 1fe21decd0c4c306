"""Object keypoint similarity and its average precision, as COCO defines them (Lin et al. 2014; pycocotools)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.errors import DataError
from headway.metrics.average_precision import THRESHOLDS, Compared, Flags, Floats, Matches

# Standard deviation of human annotations over the square root of a person's area: nose, eyes, ears, shoulders, elbows,
# wrists, hips, knees, ankles.
SIGMAS = np.repeat([0.026, 0.025, 0.035, 0.079, 0.072, 0.062, 0.107, 0.087, 0.089], [1, *[2] * 8])
DETECTIONS = 20  # of an image, those with the highest scores
AREAS = {"all": (0.0, 1e10), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}  # square pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The people of an image: keypoints (G, K, 3) as x, y, visibility; areas (G,); boxes (G, 4) as x, y, width, height.

    Detections of a crowd (G,) count neither as correct nor as wrong.
    """

    keypoints: Floats
    areas: Floats
    boxes: Floats
    crowds: Flags | None = None

    @property
    def ignored(self) -> Flags:
        """Which people are ignored (G,): crowds, and those without a labelled keypoint."""
        unseen: Flags = (self.keypoints[:, :, 2] > 0).sum(1) == 0
        return unseen if self.crowds is None else unseen | self.crowds


@dataclass(frozen=True, slots=True, kw_only=True)
class Detections:
    """The detections in an image: keypoint positions (P, K, 2) and scores (P,)."""

    places: Floats
    scores: Floats

    @property
    def areas(self) -> Floats:
        """The areas of the boxes around all keypoints (P,)."""
        sides = self.places.max(1) - self.places.min(1)
        product: Floats = sides[:, 0] * sides[:, 1]
        return product


def oks(found: Detections, people: People) -> Floats:
    """Object keypoint similarity of each detection to each person (P, G); 1 if all labelled keypoints coincide.

    For a person without a labelled keypoint, distances are measured from the box enlarged by its size on every side.
    """
    away = found.places[:, None] - people.keypoints[None, :, :, :2]
    seen = people.keypoints[:, :, 2] > 0
    counted = seen.sum(1)
    blank = counted == 0
    if blank.any():
        away[:, blank] = _outside(found.places, people.boxes[blank])
        seen = seen | blank[:, None]
    spread = 2 * (2 * SIGMAS) ** 2 * (people.areas[:, None] + np.spacing(1))
    likeness = np.exp(-(away**2).sum(-1) / spread) * seen
    return likeness.sum(-1) / seen.sum(1)  # type: ignore[no-any-return]


def _outside(places: Floats, boxes: Floats) -> Floats:
    """The distance of points (P, K, 2) from boxes three times as wide and high (P, G, K, 2)."""
    corner, side = boxes[None, :, None, :2], boxes[None, :, None, 2:]
    points = places[:, None]
    return np.maximum(corner - side - points, 0) + np.maximum(points - corner - 2 * side, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeypointReport:
    """COCO keypoint metrics; None where no person is in the range of areas."""

    ap: dict[str, float | None]  # by range of areas, the mean over thresholds
    ap_at: dict[float, float | None]  # by threshold, all areas
    recall: float | None  # the highest, the mean over thresholds
    mean_oks: float  # of the most similar detection of each person
    people: int

    def to_json(self) -> dict[str, Any]:
        """The object that `headway evaluate --json` prints."""
        return {
            "oks_ap": self.ap["all"],
            "oks_ap50": self.ap_at[0.5],
            "oks_ap75": self.ap_at[0.75],
            "oks_ap_medium": self.ap["medium"],
            "oks_ap_large": self.ap["large"],
            "oks_ar": self.recall,
            "mean_oks": self.mean_oks,
            "people": self.people,
        }


def keypoint_report(found: Sequence[Detections], people: Sequence[People]) -> KeypointReport:
    """Average precision of the detections of each image. Raises DataError unless there are as many as images."""
    if len(found) != len(people) or not people:
        raise DataError(f"detections of {len(found)} images for {len(people)}: expected the same, at least one")
    matches = {name: Matches(bounds) for name, bounds in AREAS.items()}
    best: list[float] = []
    for each, there in zip(found, people, strict=True):
        order = np.argsort(-each.scores, kind="stable")[:DETECTIONS]
        kept = Detections(places=each.places[order], scores=each.scores[order])
        alike = oks(kept, there)
        best += [float(alike[:, g].max(initial=0.0)) for g in np.flatnonzero(~there.ignored)]
        compared = Compared(
            scores=kept.scores,
            own_areas=kept.areas,
            areas=there.areas,
            ignored=there.ignored,
            crowds=np.zeros(len(there.areas), bool) if there.crowds is None else there.crowds,
            alike=alike,
        )
        for each_range in matches.values():
            each_range.add(compared)
    precision = {name: each.precision() for name, each in matches.items()}
    at, highest = precision["all"]
    return KeypointReport(
        ap={name: None if found is None else float(found.mean()) for name, (found, _) in precision.items()},
        ap_at={round(float(t), 2): None if at is None else float(at[n].mean()) for n, t in enumerate(THRESHOLDS)},
        recall=None if highest is None else float(highest.mean()),
        mean_oks=float(np.mean(best)) if best else 0.0,
        people=len(best),
    )
