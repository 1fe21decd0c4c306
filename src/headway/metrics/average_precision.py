"""Average precision as COCO defines it (Lin et al. 2014; pycocotools), whatever the similarity of two things is.

Detections are matched by descending score to the most similar object above a threshold; the precision at 101 recalls is
that of the best point at least as far. Boxes (`detection`) and keypoints (`keypoints`) differ in the similarity alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Bounds = tuple[float, float]  # of areas, both included
THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The detections of an image, by descending score, and its objects.

    Scores and areas (P,) of detections; areas (G,) of objects, which of them are ignored and which are crowds, whose
    detections count neither as correct nor as wrong; and the similarity of each pair (P, G).
    """

    scores: Floats
    own_areas: Floats
    areas: Floats
    ignored: Flags
    crowds: Flags
    alike: Floats


@dataclass(slots=True)
class Matches:
    """Detections of all images in one range of areas: scores, whether each is correct or ignored (thresholds, N)."""

    bounds: Bounds
    scores: list[Floats] = field(default_factory=list)
    right: list[Flags] = field(default_factory=list)
    ignored: list[Flags] = field(default_factory=list)
    wanted: int = 0  # objects that count

    def add(self, image: Compared) -> None:
        """Match each detection, by descending score, to the most similar object; those out of range are ignored."""
        low, high = self.bounds
        ignored = image.ignored | (image.areas < low) | (image.areas > high)
        order = np.argsort(ignored, kind="stable")  # objects that are not ignored come first, and are preferred
        shape = (len(THRESHOLDS), len(image.scores))
        right, passed = np.zeros(shape, bool), np.zeros(shape, bool)
        own = (image.own_areas < low) | (image.own_areas > high)
        passed[:] = own
        for row, threshold in enumerate(THRESHOLDS if len(ignored) else ()):
            taken: set[int] = set()
            for number in range(len(image.scores)):
                chosen = _chosen(image.alike[number], threshold, order, ignored, taken, image.crowds)
                if chosen is not None:
                    taken.add(chosen)
                    right[row, number] = True
                    passed[row, number] = ignored[chosen]
        self.scores.append(image.scores)
        self.right.append(right)
        self.ignored.append(passed)
        self.wanted += int((~ignored).sum())

    def precision(self, most: int | None = None) -> tuple[Floats | None, Floats | None]:
        """Precision at each recall (thresholds, recalls) and the highest recall (thresholds,); None without objects.

        With `most`, of as many detections of an image as that.
        """
        if not self.wanted:
            return None, None
        order = np.argsort(-np.concatenate([each[:most] for each in self.scores]), kind="stable")
        right, ignored = (
            np.concatenate([each[:, :most] for each in parts], 1)[:, order] for parts in (self.right, self.ignored)
        )
        hits, misses = np.cumsum(right & ~ignored, 1), np.cumsum(~right & ~ignored, 1)
        at, highest = np.zeros((len(THRESHOLDS), len(RECALLS))), np.zeros(len(THRESHOLDS))
        for row in range(len(THRESHOLDS)):
            recall, precision = hits[row] / self.wanted, hits[row] / (hits[row] + misses[row] + np.spacing(1))
            if not len(recall):
                continue
            highest[row] = recall[-1]
            envelope = np.maximum.accumulate(precision[::-1])[::-1]
            place = np.searchsorted(recall, RECALLS)
            reached = place < len(recall)
            at[row, reached] = envelope[place[reached]]
        return at, highest


def _chosen(
    alike: Floats, threshold: float, order: NDArray[np.int64], ignored: Flags, taken: set[int], crowds: Flags
) -> int | None:
    """The most similar object above the threshold, preferring those not ignored; the last one among equals."""
    least, found = min(threshold, 1 - 1e-10), None
    for each in map(int, order):
        if each in taken and not crowds[each]:
            continue
        if found is not None and not ignored[found] and ignored[each]:
            break
        if alike[each] >= least:
            least, found = alike[each], each
    return found
