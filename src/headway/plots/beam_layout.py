"""Where the words of a beam tree stand: a column for each step, close to where they come from, none on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

FONT = 9.5  # points, of the words
LONGEST = 16  # letters of a piece that are shown
GAP, LABEL = 0.62, 0.3  # inches between two columns, and how much of that a number on an edge takes
SCORE = 0.8  # inches for a finished line's rank and score
AFTER = 0.1  # inches between a word and what follows it on its row
WEIGHT = {"won": 1e9, "ended": 10.0, "kept": 10.0, "pruned": 1.0}  # who may stay level with its parent


def shown(piece: str) -> str:
    """A piece as it is drawn: in one line, not too long, never nothing."""
    return visible(piece, LONGEST) or "␣"


def visible(text: str, most: int) -> str:
    """A text in one line of at most so many letters; what is no letter (an escape sequence's first) is a dot."""
    line = "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class Layout:
    """Inches from the left for each step, rows from the top for each node."""

    x: list[float]
    widths: list[float]  # of each step's words
    y: list[float]
    nodes: Sequence[Any]
    finished: Mapping[int, object]
    gap: float = GAP
    label: float = LABEL

    @classmethod
    def of(cls, nodes: Sequence[Any], finished: Mapping[int, object]) -> Layout:
        """The layout of a tree whose parents stand before their children."""
        steps = max((node.step for node in nodes), default=-1) + 1
        widths = [0.0] * steps
        for index, node in enumerate(nodes):
            wide = text_width(node.piece) + (SCORE if index in finished else AFTER)
            widths[node.step] = max(widths[node.step], wide)
        x: list[float] = []
        for step in range(steps):
            x.append((x[-1] + widths[step - 1] if x else 0.0) + GAP)
        return cls(x, widths, _rows(nodes, steps), nodes, finished)

    @property
    def top(self) -> float:
        """The uppermost row."""
        return min(self.y, default=0.0)

    @property
    def bottom(self) -> float:
        """The lowest row."""
        return max(self.y, default=0.0)

    @property
    def root(self) -> float:
        """Where the edges of the first words begin."""
        return 0.02

    @property
    def root_y(self) -> float:
        """The row they begin at: the winner's, else the first one's."""
        first = [index for index, node in enumerate(self.nodes) if node.parent is None]
        won = [index for index in first if self.nodes[index].status == "won"]
        return self.y[(won or first)[0]]

    @property
    def width(self) -> float:
        """Inches in all."""
        return self.x[-1] + self.widths[-1]

    def after(self, node: Any) -> float:
        """Where what follows a word on its row begins."""
        return float(self.x[node.step] + text_width(node.piece) + AFTER)

    def end_of(self, step: int) -> float:
        """The right edge of a step's column."""
        return self.x[step] + self.widths[step]


def text_width(piece: str) -> float:
    """How many inches a piece takes in bold."""
    return _inches(shown(piece).replace("$", "S"))  # a pair of dollars would be measured as mathematics


@lru_cache(maxsize=4096)
def _inches(text: str) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    wide = TextPath((0, 0), text, size=FONT, prop=FontProperties(weight="bold")).get_extents().width
    return float(max(wide / 72, 0.06))


def _rows(nodes: Sequence[Any], steps: int) -> list[float]:
    """A row for each node, column by column: in the order of their parents, level with them where there is room.

    The winner comes first and stays on row 0.
    """
    y = [0.0] * len(nodes)
    columns: list[list[int]] = [[] for _ in range(steps)]
    for index, node in enumerate(nodes):
        columns[node.step].append(index)
    for column in columns:

        def wanted(index: int) -> float:
            parent = nodes[index].parent
            return 0.0 if parent is None else y[parent]

        column.sort(key=lambda index: (wanted(index), nodes[index].status != "won", -nodes[index].nats))
        places = spread([wanted(index) for index in column], [WEIGHT[nodes[index].status] for index in column])
        for index, place in zip(column, places, strict=True):
            y[index] = place
    return y


def spread(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Places from 0 on, in this order and at least 1 apart, as near to the wanted ones as can be (least squares)."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, members: pooled where neighbours would cross
    for n, (place, weight) in enumerate(zip(wanted, weights, strict=True)):
        blocks.append((place - n, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, v, k), (b, w, m) = blocks[-2:]
            blocks[-2:] = [((a * v + b * w) / (v + w), v + w, k + m)]
    level = np.repeat([mean for mean, _, _ in blocks], [members for _, _, members in blocks])
    return [float(value) for value in np.maximum(level, 0) + np.arange(len(wanted))]
