"""Drawing batches of small images with signed distance functions, so that edges are anti-aliased at any size.

Positions and radii are in units of the image side, y downwards. An image is (3, S, S) with values from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]
CLOSE = 0.5  # minimum distance of two colours; that of black and white is √3


def _circle(u: Floats, v: Floats) -> Floats:
    distance: Floats = np.hypot(u, v) - 0.9
    return distance


def _square(u: Floats, v: Floats) -> Floats:
    return np.maximum(np.abs(u), np.abs(v)) - 0.8


def _triangle(u: Floats, v: Floats) -> Floats:
    lean = math.sqrt(3) / 2
    return np.maximum(np.maximum(lean * u + 0.5 * v, -lean * u + 0.5 * v), -v) - 0.5


def _star(u: Floats, v: Floats) -> Floats:
    """Five-pointed: by symmetry, the distance to one edge from a tip to the next notch."""
    sector = 2 * math.pi / 5
    angle = np.abs((np.arctan2(v, u) + sector / 2) % sector - sector / 2)
    radius = np.hypot(u, v)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    notch = 0.42
    along = (notch * math.cos(sector / 2) - 1, notch * math.sin(sector / 2))
    length = math.hypot(*along)
    distance: Floats = ((x - 1) * along[1] - y * along[0]) / length
    return distance


def _cross(u: Floats, v: Floats) -> Floats:
    a, b = np.abs(u), np.abs(v)
    return np.minimum(np.maximum(a - 0.95, b - 0.3), np.maximum(a - 0.3, b - 0.95))


def _ring(u: Floats, v: Floats) -> Floats:
    distance: Floats = np.abs(np.hypot(u, v) - 0.7) - 0.2
    return distance


def _bar(u: Floats, v: Floats) -> Floats:
    distance: Floats = np.maximum(np.abs(u) - 1, np.abs(v) - 0.32)
    return distance


def _crescent(u: Floats, v: Floats) -> Floats:
    distance: Floats = np.maximum(np.hypot(u, v) - 0.95, 0.72 - np.hypot(u - 0.45, v))
    return distance


OUTLINES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "cross": _cross,
    "ring": _ring,
    "bar": _bar,
    "crescent": _crescent,
}
SHAPES = tuple(OUTLINES)


@dataclass(frozen=True, slots=True)
class Objects:
    """One object per image: shape index, position, radius and angle, all (N,), and colour (N, 3)."""

    shape: Numbers
    x: Floats
    y: Floats
    radius: Floats
    angle: Floats
    colour: Floats


def coverage(objects: Objects, size: int) -> Floats:
    """The coverage of each pixel by the object of its image (N, S, S)."""
    centre = (np.arange(size, dtype=np.float32) + 0.5) / size
    covered = np.empty((len(objects.x), size, size), np.float32)
    for number, outline in enumerate(OUTLINES.values()):
        rows = np.flatnonzero(objects.shape == number)
        x, y, radius, angle = (
            each[rows].reshape(-1, 1, 1).astype(np.float32)
            for each in (objects.x, objects.y, objects.radius, objects.angle)
        )
        dx, dy = (centre[None, None, :] - x) / radius, (centre[None, :, None] - y) / radius
        u, v = np.cos(angle) * dx + np.sin(angle) * dy, np.cos(angle) * dy - np.sin(angle) * dx
        covered[rows] = np.clip(0.5 - outline(u, v) * radius * size, 0, 1)
    return covered


def paint(pictures: Floats, objects: Objects) -> None:
    """Draw an object on each image (N, 3, S, S), in place."""
    _blend(pictures, coverage(objects, pictures.shape[-1]), objects.colour)


def paint_lines(pictures: Floats, begin: Floats, end: Floats, width: Floats, colour: Floats) -> None:
    """Draw a line with round ends from `begin` to `end` (N, 2), of half-width `width` (N,), on each image, in place."""
    size = pictures.shape[-1]
    centre = (np.arange(size, dtype=np.float32) + 0.5) / size
    from_x, from_y = centre[None, None, :] - begin[:, :1, None], centre[None, :, None] - begin[:, 1:, None]
    x, y = (end - begin)[:, :1, None], (end - begin)[:, 1:, None]
    share = np.clip((from_x * x + from_y * y) / np.maximum(x * x + y * y, 1e-9), 0, 1)
    distance = np.hypot(from_x - share * x, from_y - share * y) - width[:, None, None]
    _blend(pictures, np.clip(0.5 - distance * size, 0, 1).astype(np.float32), colour)


def _blend(pictures: Floats, covered: Floats, colour: Floats) -> None:
    pictures += covered[:, None] * (colour[:, :, None, None] - pictures)


def backgrounds(random: np.random.Generator, count: int, size: int, apart_from: Floats | None = None) -> Floats:
    """Greyish gradients (N, 3, S, S), distinct from the colours (N, 3) of the objects drawn on them."""
    base = random.uniform(0.1, 0.9, (count, 1)) + random.uniform(-0.08, 0.08, (count, 3))
    if apart_from is not None:
        close = np.linalg.norm(base - apart_from, axis=1) < CLOSE
        base[close] = np.where(base[close].mean(1, keepdims=True) < 0.5, base[close] + 0.4, base[close] - 0.4)
    slope = random.uniform(-0.25, 0.25, (count, 2, 1, 1))
    ramp = np.linspace(-0.5, 0.5, size)
    light = slope[:, 0] * ramp[None, None, :] + slope[:, 1] * ramp[None, :, None]
    return (base[:, :, None, None] + light[:, None]).astype(np.float32)


def finished(random: np.random.Generator, pictures: Floats, noise: float) -> NDArray[np.uint8]:
    """Images as bytes, with Gaussian noise of a random strength up to `noise` per image."""
    strength = random.uniform(0, noise, (len(pictures), 1, 1, 1)).astype(np.float32)
    grain = random.standard_normal(pictures.shape, np.float32)
    return (np.clip(pictures + strength * grain, 0, 1) * 255).round().astype(np.uint8)
