"""Sizes, counts and times as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from headway.counts import counted
from headway.training.quantities import size as bytes_text

__all__ = ["age_text", "bytes_text", "count_text", "sizes_text"]


def sizes_text(sizes: Mapping[str, int]) -> str:
    """The total of some sizes, and what it is made of: those that are not 0."""
    parts = ", ".join(f"{name} {bytes_text(size)}" for name, size in sizes.items() if size)
    return f"{bytes_text(sum(sizes.values()))}{f' ({parts})' if parts else ''}"


def count_text(count: int) -> str:
    """A large number, such as that of a model's parameters: 2.6 M."""
    return _scaled(count, (("B", 10**9), ("M", 10**6), ("k", 10**3))) or str(count)


def age_text(seconds: float) -> str:
    """How long ago something was, in its largest unit."""
    for unit, size in (("day", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            number = int(seconds // size)
            return counted(number, unit) if unit == "day" else f"{number} {unit}"
    return f"{int(seconds)} s"


def _scaled(count: int, units: tuple[tuple[str, int], ...]) -> str:
    return next((f"{count / size:.1f} {unit}" for unit, size in units if count >= size), "")
