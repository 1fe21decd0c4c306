"""A grid of image patches as a sequence of the page."""

from __future__ import annotations

from typing import Any

from headway.nn.patches import Grid

PATCHES = "patches"


def patch_sequence(grid: Grid, *, own: bool, label: str) -> dict[str, Any]:
    """A grid of patches as a sequence, with a token of its own in front if there is one."""
    rows, columns = grid
    named = [f"{row + 1}·{column + 1}" for row in range(rows) for column in range(columns)]
    return {
        "label": label,
        "tokens": [*(["class"] if own else []), *named],
        "grid": [rows, columns],
        "before": int(own),
        "start": 0,
    }
