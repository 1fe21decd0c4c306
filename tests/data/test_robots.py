"""The built-in `robots`: the class of a set by its definition, element by element."""

from __future__ import annotations

import math

import numpy as np

from headway.data.synthetic.robots import CHARGED, CLASSES, FEATURES, FEWEST, MOST, swarms


def answer(elements: list[list[float]]) -> str:
    """The class by the text of the definition, in plain Python."""
    (target,) = (each for each in elements if each[5] == 1)
    robots = [each for each in elements if each[5] == 0 and each[4] >= CHARGED]
    near = min(robots, key=lambda each: math.dist(each[:2], target[:2]))
    way = (target[0] - near[0], target[1] - near[1])
    forward = way[0] * near[2] + way[1] * near[3]
    left = near[2] * way[1] - near[3] * way[0]
    if abs(forward) > abs(left):
        return "ahead" if forward > 0 else "behind"
    return "left" if left > 0 else "right"


def test_every_class_is_that_of_the_definition():
    made = swarms(400, seed=5)
    for vectors, length, label in zip(*made, strict=True):
        assert answer(vectors[:length].tolist()) == CLASSES[label]
        assert not vectors[length:].any()
    assert made.vectors.shape == (400, MOST + 1, len(FEATURES))
    assert set(made.lengths.tolist()) == set(range(FEWEST + 1, MOST + 2))
    assert np.bincount(made.labels).min() > 70


def test_a_larger_set_begins_with_the_smaller_one():
    few, many = swarms(5, seed=1), swarms(9, seed=1)
    assert all(np.array_equal(a, b[:5]) for a, b in zip(few, many, strict=True))
    assert not np.array_equal(few.vectors, swarms(5, seed=2).vectors)
