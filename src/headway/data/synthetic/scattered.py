"""Images of several objects with the boxes around them: scattered shapes, and groups of stick figures.

Every set is a function of its seed. An image has from no object to as many as fit; objects overlap little, those drawn
later lie in front.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from headway.data.image_decoding import Pixels
from headway.data.synthetic import stick_figures
from headway.data.synthetic.drawing import OUTLINES, SHAPES, Floats, Numbers, Objects, backgrounds, finished, paint
from headway.data.synthetic.shapes import shape_colours
from headway.data.synthetic.stick_figures import draw_figures, figure_points

MOST_SHAPES, MOST_FIGURES = 5, 3  # objects in an image
EMPTY = 0.05  # share of images without an object
RADII = (0.09, 0.26)  # of a shape, in sides of the image
HEIGHTS = (0.38, 0.6)  # of a figure
TRIES = 12  # places that are tried for an object; if all are taken, it is left out
OVERLAP = 0.1  # intersection over union that two boxes may have
AWAY = -9.0  # where an object is put that an image does not have
ANGLES = 720  # directions in which the outlines of shapes are measured
FINE = 601  # points a side of the square in which they are


@dataclass(frozen=True, slots=True)
class Scattered:
    """Images (N, 3, S, S); boxes (N, M, 4) as left, top, right, bottom in pixels; classes (N, M), -1: no object."""

    pixels: Pixels
    boxes: Floats
    classes: Numbers


def scattered_shapes(count: int, *, size: int, seed: int, unseen: bool = False) -> Scattered:
    """Up to five shapes in each image; with `unseen`, in held-out combinations of shape and colour only."""
    random = np.random.default_rng([seed, 41 + unseen])
    shape, colour = shape_colours(random, count * MOST_SHAPES, unseen)
    shape, colour = shape.reshape(count, -1), colour.reshape(count, MOST_SHAPES, 3)
    radius = np.exp(random.uniform(math.log(RADII[0]), math.log(RADII[1]), shape.shape))
    angle = random.uniform(0, 2 * np.pi, shape.shape)
    extents = shape_extents(shape, angle) * radius[:, :, None]
    places, present = _places(random, extents, _wanted(random, count, MOST_SHAPES))
    pictures = backgrounds(random, count, size)
    for n in range(MOST_SHAPES):
        x, y = places[:, n].T
        paint(pictures, Objects(shape[:, n], x, y, radius[:, n], angle[:, n], colour[:, n]))
    return _scattered(finished(random, pictures, 0.06), places, extents, np.where(present, shape, -1))


def scattered_figures(count: int, *, size: int, seed: int) -> Scattered:
    """Up to three people in each image, the boxes around all that is drawn of them."""
    random = np.random.default_rng([seed, 43])
    height = random.uniform(*HEIGHTS, (count, MOST_FIGURES))
    points = np.stack([figure_points(random, height[:, n]) for n in range(MOST_FIGURES)], 1)
    extents = stick_figures.extents(points, height)
    places, present = _places(random, extents, _wanted(random, count, MOST_FIGURES))
    pictures = backgrounds(random, count, size)
    for n in range(MOST_FIGURES):
        draw_figures(random, pictures, points[:, n] + places[:, n, None], height[:, n])
    return _scattered(finished(random, pictures, 0.08), places, extents, np.where(present, 0, -1))


def _wanted(random: np.random.Generator, count: int, most: int) -> NDArray[np.bool_]:
    """Which objects an image is to have (N, M): the first n, n from 1 to M equally often, or none."""
    numbers = np.where(random.random(count) < EMPTY, 0, random.integers(1, most + 1, count))
    wanted: NDArray[np.bool_] = np.arange(most) < numbers[:, None]
    return wanted


def _places(
    random: np.random.Generator, extents: Floats, wanted: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Where objects lie (N, M, 2) that reach `extents` (N, M, 4) to the left, top, right and bottom, inside the image.

    An object is put where it overlaps those before it little; one that finds no such place is left out, far away.
    """
    count, most, _ = extents.shape
    places, present = np.full((count, most, 2), AWAY), np.zeros((count, most), bool)
    for n in range(most):
        reach = extents[:, None, n]
        low, high = -reach[..., :2], 1 - reach[..., 2:]
        tried = low + random.random((count, TRIES, 2)) * np.maximum(high - low, 0)
        boxes = np.concatenate([tried, tried], 2) + reach
        before = np.concatenate([places, places], 2)[:, None, :n] + extents[:, None, :n]
        fits: NDArray[np.bool_] = np.all(_iou(boxes[:, :, None], before) <= OVERLAP, axis=2)
        present[:, n] = wanted[:, n] & fits.any(1)
        chosen = tried[np.arange(count), fits.argmax(1)]
        places[:, n] = np.where(present[:, n, None], chosen, AWAY)
    return places, present


def _iou(first: Floats, second: Floats) -> Floats:
    """Intersection over union of corners (…, 4) that broadcast."""
    low, high = np.maximum(first[..., :2], second[..., :2]), np.minimum(first[..., 2:], second[..., 2:])
    inside = np.maximum(high - low, 0).prod(-1)
    areas = [(each[..., 2:] - each[..., :2]).prod(-1) for each in (first, second)]
    shares: Floats = inside / (areas[0] + areas[1] - inside)
    return shares


def _scattered(pixels: Pixels, places: Floats, extents: Floats, classes: Numbers) -> Scattered:
    size = pixels.shape[-1]
    boxes = np.clip((np.concatenate([places, places], 2) + extents) * size, 0, size)
    return Scattered(pixels, np.where(classes[..., None] >= 0, boxes, 0).astype(np.float32), classes)


def shape_extents(shape: Numbers, angle: Floats) -> Floats:
    """How far shapes of radius 1, turned by these angles, reach (…, 4): left and top (negative), right and bottom."""
    table, step = _support(), 2 * np.pi / ANGLES

    def reach(direction: float) -> Floats:
        far: Floats = table[shape, np.round((direction - angle) / step).astype(np.int64) % ANGLES]
        return far

    return np.stack([-reach(np.pi), -reach(1.5 * np.pi), reach(0.0), reach(0.5 * np.pi)], -1)


@cache
def _support() -> Floats:
    """How far each shape reaches in each direction (shapes, ANGLES), measured on a fine grid of points inside it."""
    axis = np.linspace(-1.2, 1.2, FINE)
    v, u = np.meshgrid(axis, axis, indexing="ij")
    angles = np.arange(ANGLES) * 2 * np.pi / ANGLES
    directions = np.stack([np.cos(angles), np.sin(angles)])
    found = []
    for outline in OUTLINES.values():
        inside = outline(u, v) <= 0
        edge = inside & ~(  # of a filled shape only points with an outside neighbour can be the furthest
            np.roll(inside, 1, 0) & np.roll(inside, -1, 0) & np.roll(inside, 1, 1) & np.roll(inside, -1, 1)
        )
        found.append((np.stack([u[edge], v[edge]], 1) @ directions).max(0))
    assert len(found) == len(SHAPES)
    return np.stack(found)
