"""A grid of image patches as a sequence of the page."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from headway.nn.patches import Grid

PATCHES = "patches"


@runtime_checkable
class PatchModel(Protocol):
    """A model that attends over a grid of image patches."""

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        ...

    @property
    def patch_positions(self) -> Tensor | None:
        """Learned positions (T, D) that were added to the patches before the first block, if any."""
        ...


def patch_sequence(grid: Grid, *, own: bool, label: str) -> dict[str, Any]:
    """A grid of patches as a sequence, with a token of its own in front if there is one."""
    rows, columns = grid
    named = [f"{row + 1}·{column + 1}" for row in range(rows) for column in range(columns)]
    return {
        "label": label,
        "tokens": [*(["class"] if own else []), *named],
        "grid": [rows, columns],
        "before": int(own),
        "unit": "patch",
        "start": 0,
    }
