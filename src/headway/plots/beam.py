"""Drawing a beam search: the tree of hypotheses, and below it the attention of the best one over the source."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.errors import AdviceWarning
from headway.plots.curves import COLOURS, DPI, INK, to_png, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PIXELS = 16_000  # of a side: a long search is drawn at a lower resolution
TOP, BOTTOM, RIGHT, BETWEEN = 0.72, 0.4, 0.2, 0.55  # inches around and between the two panels
ROW, SOURCE_ROW = 0.3, 0.24  # inches per hypothesis and per source token
ALIGNMENT_TITLE = "where the winner looked in the source for each of its words (darkest: a weight of 1)"
WON, FAINT = COLOURS[0], "#B4B4B4"
TEXT_STYLES: dict[str, dict[str, Any]] = {
    "pruned": {"color": FAINT, "zorder": 1},
    "kept": {"color": "#555555", "zorder": 2},
    "ended": {"color": INK, "zorder": 3},
    "won": {"color": WON, "zorder": 4, "fontweight": "bold"},
}
EDGE_STYLES = {"pruned": ("#DDDDDD", 0.7), "kept": ("#8C8C8C", 1.0), "ended": (INK, 1.0), "won": (WON, 2.4)}


FONT = 9.5  # points, of the tokens
LONGEST = 16  # characters of a token that are drawn
GAP, LABEL = 0.62, 0.3  # inches between two columns, and the part of it for a number on an edge
SCORE = 0.8  # inches for the rank and score of a finished hypothesis
AFTER = 0.1  # inches between a token and what follows it on its row
WEIGHT = {"won": 1e9, "ended": 10.0, "kept": 10.0, "pruned": 1.0}  # which child stays on the row of its parent


class BeamNode(Protocol):
    """A token of a hypothesis: its parent node, step, text, log-probability and status."""

    @property
    def parent(self) -> int | None: ...
    @property
    def step(self) -> int: ...
    @property
    def piece(self) -> str: ...
    @property
    def nats(self) -> float: ...
    @property
    def status(self) -> Literal["kept", "pruned", "ended", "won"]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamPicture:
    """The content of a drawing: all nodes, ranks and scores of finished hypotheses, the alignment of the best one."""

    title: str
    subtitle: str
    nodes: Sequence[BeamNode]
    finished: Mapping[int, tuple[int, float]]  # last node of a finished hypothesis -> rank, from 1, and score
    source_pieces: Sequence[str] = ()
    alignment: NDArray[np.float32] | None = None  # (tokens of the best hypothesis, source tokens)


def plot_beam(picture: BeamPicture, *, kind: Literal["png", "svg"] = "png") -> bytes:
    """The tree, the best hypothesis bold, pruned ones faint, log-probabilities on the edges; the alignment below."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = _composed(picture)
        data = to_svg(figure) if kind == "svg" else to_png(figure)
    if any("missing from" in str(each.message) for each in caught):  # matplotlib warns for each letter, many times
        warnings.warn(
            "the font of the drawing lacks some characters, which are drawn as boxes", AdviceWarning, stacklevel=2
        )
    return data


def _composed(picture: BeamPicture) -> Figure:
    layout = Layout.of(picture.nodes, picture.finished)
    drawn = picture.alignment is not None and len(picture.alignment) > 0
    left = 0.35 + (max(map(text_width, picture.source_pieces)) if drawn else 0)
    tree_height = ROW * (layout.bottom - layout.top + 1)
    below = BETWEEN + SOURCE_ROW * len(picture.source_pieces) if drawn else 0
    width, height = left + layout.width + RIGHT, TOP + tree_height + below + BOTTOM
    figure = _figure(width, height)
    figure.text(0.15 / width, 1 - 0.28 / height, picture.title, **_PLAIN, fontsize=12, fontweight="bold", color=INK)
    figure.text(0.15 / width, 1 - 0.5 / height, picture.subtitle, **_PLAIN, fontsize=8.5, color="#777777")

    def panel(bottom: float, tall: float) -> Axes:
        axes = figure.add_axes((left / width, bottom / height, layout.width / width, tall / height))
        axes.set_xlim(0, layout.width)
        return axes

    _draw_tree(panel(BOTTOM + below, tree_height), picture, layout)
    if picture.alignment is not None and drawn:
        _draw_alignment(panel(BOTTOM, below - BETWEEN), picture, picture.alignment, layout)
    return figure


_PLAIN: dict[str, Any] = {"parse_math": False}  # a dollar sign does not start mathematics


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    dpi = min(DPI, MAX_PIXELS / max(width, height))
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _draw_tree(axes: Axes, picture: BeamPicture, layout: Layout) -> None:
    axes.set_ylim(layout.bottom + 0.5, layout.top - 0.5)  # the first row on top
    axes.set_axis_off()
    for index, node in enumerate(picture.nodes):
        x, y = layout.x[node.step], layout.y[index]
        _draw_edge(axes, picture, layout, index)
        axes.text(x, y, display_text(node.piece), va="center", fontsize=FONT, **_PLAIN, **TEXT_STYLES[node.status])
        if index in picture.finished:
            rank, score = picture.finished[index]
            look = {**TEXT_STYLES[node.status], "fontsize": 8}
            frame = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": look["color"], "linewidth": 0.8}
            text = f"#{rank}  {_signed(score, 3)}"
            axes.text(layout.after(node), y, text, va="center", bbox=frame, **_PLAIN, **look)


def _draw_edge(axes: Axes, picture: BeamPicture, layout: Layout, index: int) -> None:
    """A curve from the parent that ends horizontally, with the log-probability above its end."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    node = picture.nodes[index]
    colour, thickness = EDGE_STYLES[node.status]
    end, y = layout.x[node.step] - 0.05, layout.y[index]
    if node.parent is None:
        start, from_y = layout.root, layout.root_y
    else:
        parent = picture.nodes[node.parent]
        start, from_y = layout.after(parent) - 0.05, layout.y[node.parent]
    level = end - layout.label  # from here on horizontal, below the number
    middle = (layout.x[node.step] - layout.gap + level) / 2
    corners = [(start, from_y), (layout.x[node.step] - layout.gap, from_y)]
    corners += [(middle, from_y), (middle, y), (level, y), (end, y)]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    path = Path(np.array(corners), codes)
    axes.add_patch(
        PathPatch(
            path, facecolor="none", edgecolor=colour, linewidth=thickness, zorder=TEXT_STYLES[node.status]["zorder"]
        )
    )
    look = {**TEXT_STYLES[node.status], "fontsize": 6.5, "fontweight": "normal"}
    axes.text(end - layout.label / 2, y - 0.06, _signed(node.nats, 2), ha="center", va="bottom", **_PLAIN, **look)


def _draw_alignment(axes: Axes, picture: BeamPicture, weights: NDArray[np.float32], layout: Layout) -> None:
    """A heat map with a column for each step of the best hypothesis, a row for each source token."""
    words, pieces = weights.shape
    edges = [layout.x[step] - layout.gap for step in range(words)] + [layout.end_of(words - 1)]
    axes.pcolormesh(edges, np.arange(pieces + 1), weights.T, cmap="Blues", vmin=0, vmax=1, edgecolors="white")
    axes.set_ylim(pieces, 0)
    axes.set_title(ALIGNMENT_TITLE, loc="left", fontsize=8.5, color="#777777", pad=5)
    axes.set_yticks(np.arange(pieces) + 0.5, [display_text(piece) for piece in picture.source_pieces], **_PLAIN)
    winner = [node.piece for node in picture.nodes if node.status == "won"]
    centres = [(edges[n] + edges[n + 1]) / 2 for n in range(words)]
    axes.set_xticks(centres, [display_text(piece) for piece in winner], **_PLAIN)
    axes.tick_params(length=0, labelsize=9, colors=INK)
    axes.spines[:].set_visible(False)


def _signed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


# --- layout: a column for each step, each node close to its parent, without overlaps -------------------------------


def display_text(piece: str) -> str:
    """A token as it is drawn: in one line, truncated, a symbol for white space."""
    return printable(piece, LONGEST) or "␣"


def printable(text: str, most: int) -> str:
    """A text in one line of at most `most` characters; unprintable ones (escape sequences) become dots."""
    line = "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class Layout:
    """The position of each node: inches from the left by step, rows from the top by node."""

    x: list[float]
    widths: list[float]  # of each step's column
    y: list[float]
    nodes: Sequence[Any]
    finished: Mapping[int, object]
    gap: float = GAP
    label: float = LABEL

    @classmethod
    def of(cls, nodes: Sequence[Any], finished: Mapping[int, object]) -> Layout:
        """The layout of a tree whose nodes are ordered parents first."""
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
        """Where the edges of the first tokens start."""
        return 0.02

    @property
    def root_y(self) -> float:
        """The row where they start: that of the best hypothesis, else of the first."""
        first = [index for index, node in enumerate(self.nodes) if node.parent is None]
        won = [index for index in first if self.nodes[index].status == "won"]
        return self.y[(won or first)[0]]

    @property
    def width(self) -> float:
        """Total width in inches."""
        return self.x[-1] + self.widths[-1]

    def after(self, node: Any) -> float:
        """The right end of a node's text."""
        return float(self.x[node.step] + text_width(node.piece) + AFTER)

    def end_of(self, step: int) -> float:
        """The right edge of a step's column."""
        return self.x[step] + self.widths[step]


def text_width(piece: str) -> float:
    """The width of a token in bold, in inches."""
    return _inches(display_text(piece).replace("$", "S"))  # two dollar signs would be measured as mathematics


@lru_cache(maxsize=4096)
def _inches(text: str) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    wide = TextPath((0, 0), text, size=FONT, prop=FontProperties(weight="bold")).get_extents().width
    return float(max(wide / 72, 0.06))


def _rows(nodes: Sequence[Any], steps: int) -> list[float]:
    """A row for each node, column by column: in the order of the parents, on the parent's row where there is room.

    The best hypothesis comes first and stays on row 0.
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
        places = spread_rows([wanted(index) for index in column], [WEIGHT[nodes[index].status] for index in column])
        for index, place in zip(column, places, strict=True):
            y[index] = place
    return y


def spread_rows(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Rows >= 0 in this order and at least 1 apart, closest to the wanted ones by weighted least squares.

    Isotonic regression of `wanted - index` by pooling adjacent violators.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, members
    for n, (place, weight) in enumerate(zip(wanted, weights, strict=True)):
        blocks.append((place - n, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, v, k), (b, w, m) = blocks[-2:]
            blocks[-2:] = [((a * v + b * w) / (v + w), v + w, k + m)]
    level = np.repeat([mean for mean, _, _ in blocks], [members for _, _, members in blocks])
    return [float(value) for value in np.maximum(level, 0) + np.arange(len(wanted))]
