"""Smaller sizes of a model: what the configs' `smaller` methods share.

A config with a method `smaller() -> Self | None` gives its next smaller version, to about a third to two thirds of the
arithmetic; `headway train --budget` goes down these as far as the time demands.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW_LAYERS, LEAST_LAYERS, NARROW, LEAST_WIDTH = 4, 2, 128, 64


@dataclass(frozen=True, slots=True)
class StackSizes:
    """The sizes of a stack of blocks."""

    width: int
    heads: int
    layers: int
    inner: int

    def smaller(self) -> StackSizes | None:
        """Two thirds of the layers and heads of a deep stack; of a shallow one half the width, or fewer layers.

        Heads keep their width. None for a stack of 2 layers of width 64, or below.
        """
        if self.layers > FEW_LAYERS and self.width > NARROW:
            return self._narrowed(2 / 3, layers=max(round(self.layers * 2 / 3), LEAST_LAYERS))
        if self.width > NARROW:
            return self._narrowed(1 / 2, layers=self.layers)
        if self.layers > LEAST_LAYERS:
            return self._narrowed(1, layers=max(self.layers // 2, LEAST_LAYERS))
        return self._narrowed(1 / 2, layers=self.layers) if self.width > LEAST_WIDTH else None

    def _narrowed(self, share: float, *, layers: int) -> StackSizes:
        heads = max(round(self.heads * share), 1)
        width = self.width // self.heads * heads
        if width == self.width and share < 1:  # one head: it is narrowed itself
            width = max(round(width * share) // 8, 1) * 8
        return StackSizes(width, heads, layers, max(round(self.inner * width / self.width), 1))


def shared_heads(kv_heads: int | None, heads: int) -> int | None:
    """As many key and value heads as before, or the next fewer that divide the heads."""
    return None if kv_heads is None else max(n for n in range(1, min(kv_heads, heads) + 1) if heads % n == 0)


def halved(widths: tuple[int, ...], least: int) -> tuple[int, ...] | None:
    """The widths of stages, halved; None if the first would be below `least`."""
    return tuple(width // 2 for width in widths) if min(widths) // 2 >= least else None
