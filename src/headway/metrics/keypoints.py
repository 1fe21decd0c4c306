"""Object keypoint similarity and its average precision, as COCO defines them (Lin et al. 2014; pycocotools)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# Standard deviation of human annotations over the square root of a person's area: nose, eyes, ears, shoulders, elbows,
# wrists, hips, knees, ankles.
SIGMAS = np.repeat([0.026, 0.025, 0.035, 0.079, 0.072, 0.062, 0.107, 0.087, 0.089], [1, *[2] * 8])
THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
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


@dataclass(slots=True)
class _Matches:
    """Detections of all images in one range of areas: scores, whether each is correct or ignored (thresholds, N)."""

    scores: list[Floats] = field(default_factory=list)
    right: list[Flags] = field(default_factory=list)
    ignored: list[Flags] = field(default_factory=list)
    wanted: int = 0  # people that count


def keypoint_report(found: Sequence[Detections], people: Sequence[People]) -> KeypointReport:
    """Average precision of the detections of each image. Raises DataError unless there are as many as images."""
    if len(found) != len(people) or not people:
        raise DataError(f"detections of {len(found)} images for {len(people)}: expected the same, at least one")
    matches = {name: _Matches() for name in AREAS}
    best: list[float] = []
    for each, there in zip(found, people, strict=True):
        order = np.argsort(-each.scores, kind="stable")[:DETECTIONS]
        kept = Detections(places=each.places[order], scores=each.scores[order])
        alike = oks(kept, there)
        best += [float(alike[:, g].max(initial=0.0)) for g in np.flatnonzero(~there.ignored)]
        for name, bounds in AREAS.items():
            _match(matches[name], kept, there, alike, bounds)
    precision = {name: _precision(each) for name, each in matches.items()}
    at, highest = precision["all"]
    return KeypointReport(
        ap={name: None if found is None else float(found.mean()) for name, (found, _) in precision.items()},
        ap_at={round(float(t), 2): None if at is None else float(at[n].mean()) for n, t in enumerate(THRESHOLDS)},
        recall=None if highest is None else float(highest.mean()),
        mean_oks=float(np.mean(best)) if best else 0.0,
        people=len(best),
    )


def _match(into: _Matches, found: Detections, people: People, alike: Floats, bounds: tuple[float, float]) -> None:
    """Match each detection, by descending score, to the most similar person; those out of range are ignored."""
    low, high = bounds
    ignored = people.ignored | (people.areas < low) | (people.areas > high)
    order = np.argsort(ignored, kind="stable")  # people that are not ignored come first, and are preferred
    shape = (len(THRESHOLDS), len(found.scores))
    right, passed = np.zeros(shape, bool), np.zeros(shape, bool)
    own = (found.areas < low) | (found.areas > high)
    for row, threshold in enumerate(THRESHOLDS):
        taken: set[int] = set()
        for number in range(len(found.scores)):
            person = _chosen(alike[number], threshold, order, ignored, taken, people.crowds)
            if person is None:
                passed[row, number] = own[number]
                continue
            taken.add(person)
            right[row, number] = True
            passed[row, number] = ignored[person]
    into.scores.append(found.scores)
    into.right.append(right)
    into.ignored.append(passed)
    into.wanted += int((~ignored).sum())


def _chosen(
    alike: Floats, threshold: float, order: NDArray[np.int64], ignored: Flags, taken: set[int], crowds: Flags | None
) -> int | None:
    """The most similar person above the threshold, preferring those not ignored; the last one among equals."""
    least, person = min(threshold, 1 - 1e-10), None
    for each in map(int, order):
        if each in taken and not (crowds is not None and crowds[each]):
            continue
        if person is not None and not ignored[person] and ignored[each]:
            break
        if alike[each] >= least:
            least, person = alike[each], each
    return person


def _precision(matches: _Matches) -> tuple[Floats | None, Floats | None]:
    """Precision at each recall (thresholds, recalls) and the highest recall (thresholds,); None without people."""
    if not matches.wanted:
        return None, None
    order = np.argsort(-np.concatenate(matches.scores), kind="stable")
    right, ignored = (np.concatenate(each, 1)[:, order] for each in (matches.right, matches.ignored))
    hits, misses = np.cumsum(right & ~ignored, 1), np.cumsum(~right & ~ignored, 1)
    at, highest = np.zeros((len(THRESHOLDS), len(RECALLS))), np.zeros(len(THRESHOLDS))
    for row in range(len(THRESHOLDS)):
        recall, precision = hits[row] / matches.wanted, hits[row] / (hits[row] + misses[row] + np.spacing(1))
        if not len(recall):
            continue
        highest[row] = recall[-1]
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        place = np.searchsorted(recall, RECALLS)
        reached = place < len(recall)
        at[row, reached] = envelope[place[reached]]
    return at, highest
