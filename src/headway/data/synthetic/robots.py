"""Built-in `robots`: robots on a plane that search for an object. Which way must the nearest one turn?

A set has one to eight robots and the object, in random order. The robot that is nearest to the object, of those with
at least a fifth of its battery, goes to it; the class is where the object is as that robot sees it: ahead, to the
left, behind or to the right. No element alone has the answer, nor has a mean over elements: it takes the object's
place at each robot, the distances compared, and the heading of one robot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CLASSES = ("ahead", "behind", "left", "right")
FEATURES = ("x", "y", "heading_x", "heading_y", "battery", "object")
FEWEST, MOST = 1, 8  # robots
CHARGED = 0.2  # of a battery: a robot with less stays where it is
MARGIN = 0.15  # by which the nearest robot is nearer than the next, and a battery is from CHARGED; the plane is 2 × 2
ANGLE = np.pi / 18  # from a border between two classes, at least
TRIES = 64  # drawn at a time


class Swarms(NamedTuple):
    """Sets of robots with their object: vectors (S, T, 6), how many are real (S,), the class of each (S,)."""

    vectors: NDArray[np.float32]
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]


def swarms(count: int, *, seed: int) -> Swarms:
    """Sets from a seed; a longer list begins with the shorter one."""
    vectors = np.zeros((count, MOST + 1, len(FEATURES)), np.float32)
    lengths, labels = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for n in range(count):
        random = np.random.default_rng([seed, n])
        elements, labels[n] = _swarm(random)
        lengths[n] = len(elements)
        vectors[n, : lengths[n]] = elements[random.permutation(len(elements))]
    return Swarms(vectors, lengths, labels)


def _swarm(random: np.random.Generator) -> tuple[NDArray[np.float64], int]:
    """Elements (T, 6), the object last, and the class, of the first draw that is clear enough."""
    robots = int(random.integers(FEWEST, MOST + 1))
    while True:
        place = random.uniform(-1, 1, (TRIES, robots + 1, 2))
        turned = random.uniform(-np.pi, np.pi, (TRIES, robots))
        battery = random.uniform(0, 1, (TRIES, robots))
        battery = np.where(np.abs(battery - CHARGED) < MARGIN / 2, battery + MARGIN, battery)
        way = place[:, -1:] - place[:, :-1]
        far = np.where(battery >= CHARGED, np.hypot(way[..., 0], way[..., 1]), np.inf)
        nearest = far.argmin(1)
        ordered = np.sort(np.concatenate([far, np.full((TRIES, 1), np.inf)], 1), 1)
        row = np.arange(TRIES)
        seen = np.arctan2(way[row, nearest, 1], way[row, nearest, 0]) - turned[row, nearest]
        seen = (seen + np.pi) % (2 * np.pi) - np.pi  # 0 is ahead, a quarter turn to the left is positive
        border = np.pi / 4 - np.abs((seen + np.pi / 4) % (np.pi / 2) - np.pi / 4)
        with np.errstate(invalid="ignore"):
            clear = np.isfinite(ordered[:, 0]) & (ordered[:, 1] - ordered[:, 0] >= MARGIN) & (border >= ANGLE)
        if clear.any():
            n = int(np.flatnonzero(clear)[0])
            quarter = int(np.floor((seen[n] + np.pi / 4) / (np.pi / 2))) % 4  # ahead, left, behind, right
            label = CLASSES.index(("ahead", "left", "behind", "right")[quarter])
            heading = np.stack([np.cos(turned[n]), np.sin(turned[n]), battery[n], np.zeros(robots)], 1)
            heading = np.concatenate([heading, [[0.0, 0.0, 0.0, 1.0]]])
            return np.concatenate([place[n], heading], 1), label
