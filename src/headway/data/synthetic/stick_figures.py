"""Stick figures in random poses, with the exact positions of COCO's seventeen keypoints.

A figure faces the viewer: its left is on the right of the image. Left and right limbs have different colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headway.data.image_decoding import Pixels
from headway.data.synthetic.drawing import SHAPES, Floats, Objects, backgrounds, finished, paint, paint_lines

KEYPOINTS = (
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder", "left_elbow",
    "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle",
    "right_ankle",
)  # fmt: skip
_AT = {name: n for n, name in enumerate(KEYPOINTS)}
LIMBS = (
    ("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "knee"), ("knee", "ankle"), ("shoulder", "hip"),
)  # fmt: skip
_TINTS = {"left": (0.10, 0.45, 0.95), "right": (0.95, 0.35, 0.10), "middle": (0.15, 0.75, 0.30)}
# Lengths as fractions of a figure's height.
HEAD, TORSO, SHOULDERS, HIPS, ARM, LEG = 0.09, 0.28, 0.11, 0.07, 0.16, 0.21
WIDTHS = (0.012, 0.022)  # half the width of a limb, as a share of the height


@dataclass(frozen=True, slots=True)
class StickFigures:
    """Images (N, 3, S, S); keypoints (N, 17, 3) as x, y in pixels and visibility (2, or 0 outside); areas (N,)."""

    pixels: Pixels
    keypoints: Floats
    areas: Floats


def figures(count: int, *, size: int, seed: int) -> StickFigures:
    """One figure per image, a function of the seed; areas are those of the boxes around the keypoints, in pixels."""
    random = np.random.default_rng([seed, 17])
    height = random.uniform(0.55, 0.9, count)
    points = figure_points(random, height)
    points += random.uniform(-0.06, 0.06, (count, 1, 2)) + 0.5 - _middle(points)
    pictures = backgrounds(random, count, size)
    draw_figures(random, pictures, points, height)
    seen = ((points >= 0) & (points < 1)).all(2, keepdims=True)
    keypoints = np.concatenate([np.where(seen, points * size, 0), 2.0 * seen], 2).astype(np.float32)
    sides = (points.max(1) - points.min(1)) * size
    return StickFigures(finished(random, pictures, 0.08), keypoints, sides.prod(1).astype(np.float32))


def figure_points(random: np.random.Generator, height: Floats) -> Floats:
    """The keypoints (N, 17, 2) of figures of these heights (N,) in random poses, the hips at the origin."""
    return _pose(random, len(height)) * height[:, None, None]


def extents(points: Floats, height: Floats) -> Floats:
    """How far what is drawn of figures (…, 17, 2) of these heights (…) reaches: left, top, right, bottom (…, 4)."""
    limb, head = WIDTHS[1] * height[..., None], HEAD * height[..., None]
    nose = points[..., _AT["nose"], :]
    low = np.minimum(points.min(-2) - limb, nose - head)
    high = np.maximum(points.max(-2) + limb, nose + head)
    return np.concatenate([low, high], -1)


def _middle(points: Floats) -> Floats:
    middle: Floats = (points.max(1, keepdims=True) + points.min(1, keepdims=True)) / 2
    return middle


def _pose(random: np.random.Generator, count: int) -> Floats:
    """Keypoints (N, 17, 2) of figures of height 1 with the hips at the origin."""
    points = np.zeros((count, len(KEYPOINTS), 2))
    lean = random.uniform(-0.3, 0.3, count)
    up, across = _direction(lean + np.pi), _direction(lean + np.pi / 2)  # angles are measured from straight down
    neck = TORSO * up
    nose = neck + 1.6 * HEAD * _direction(lean + np.pi + random.uniform(-0.25, 0.25, count))
    points[:, _AT["nose"]] = nose
    for side, sign in (("left", 1), ("right", -1)):
        points[:, _AT[f"{side}_eye"]] = nose + 0.35 * HEAD * (sign * across + up)
        points[:, _AT[f"{side}_ear"]] = nose + 0.85 * HEAD * sign * across + 0.1 * HEAD * up
        points[:, _AT[f"{side}_shoulder"]] = shoulder = neck + SHOULDERS * sign * across
        points[:, _AT[f"{side}_hip"]] = hip = HIPS * sign * across
        arm = sign * random.uniform(0.1, 2.7, count)
        points[:, _AT[f"{side}_elbow"]] = elbow = shoulder + ARM * _direction(arm)
        points[:, _AT[f"{side}_wrist"]] = elbow + ARM * _direction(arm + random.uniform(-1.6, 1.6, count))
        leg = sign * random.uniform(0.0, 0.8, count)
        points[:, _AT[f"{side}_knee"]] = knee = hip + LEG * _direction(leg)
        points[:, _AT[f"{side}_ankle"]] = knee + LEG * _direction(leg - sign * random.uniform(0, 0.9, count))
    return points


def _direction(angle: Floats) -> Floats:
    """Unit vectors (N, 2) at these angles from straight down, towards the right of the image."""
    return np.stack([np.sin(angle), np.cos(angle)], -1)


def draw_figures(random: np.random.Generator, pictures: Floats, points: Floats, height: Floats) -> None:
    """Draw a figure of keypoints (N, 17, 2) on each image (N, 3, S, S), in place."""
    count = len(points)
    width = height * random.uniform(*WIDTHS, count)

    def tint(name: str) -> Floats:
        return np.clip(np.array(_TINTS[name]) + random.uniform(-0.08, 0.08, (count, 3)), 0, 1)

    def line(first: str, second: str, colour: Floats) -> None:
        paint_lines(pictures, points[:, _AT[first]], points[:, _AT[second]], width, colour)

    middle = tint("middle")
    for joint in ("shoulder", "hip"):
        line(f"left_{joint}", f"right_{joint}", middle)
    for side in ("left", "right"):
        colour = tint(side)
        for first, second in LIMBS:
            line(f"{side}_{first}", f"{side}_{second}", colour)
    nose, angle = points[:, _AT["nose"]], np.zeros(count)
    ball = np.full(count, SHAPES.index("circle"))
    paint(pictures, Objects(ball, nose[:, 0], nose[:, 1], HEAD * height, angle, middle))
    for side in ("left", "right"):
        eye = points[:, _AT[f"{side}_eye"]]
        paint(pictures, Objects(ball, eye[:, 0], eye[:, 1], 0.2 * HEAD * height, angle, np.zeros((count, 3))))
