"""Solved exercises: the file that `headway lab NAME --exercise` writes, with the shipped source in it."""

from __future__ import annotations

from headway.labs.exercise import ExerciseTarget, exercise_file, unsolved
from headway.labs.registry import LABS


def solved(name: str) -> str:
    """The exercise of a lab, solved."""
    lab = LABS[name]
    target = ExerciseTarget.of(lab, lab.exercise)
    return exercise_file(lab, lab.exercise, "x.py").replace(unsolved(target, lab.exercise), target.source)
