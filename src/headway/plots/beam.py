"""A beam search as a picture: the tree of its candidates, and below each step where its winner looked in the source."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.errors import AdviceWarning
from headway.plots.beam_layout import FONT, Layout, shown, text_width
from headway.plots.curves import COLOURS, DPI, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PIXELS = 16_000  # of a side: a long search is drawn coarser
TOP, BOTTOM, RIGHT, BETWEEN = 0.72, 0.4, 0.2, 0.55  # inches around and between the two panels
ROW, SOURCE_ROW = 0.3, 0.24  # inches a candidate, and a source piece, takes
LOOKED = "where the winner looked in the source for each of its words (darkest: a weight of 1)"
WON, FAINT = COLOURS[0], "#B4B4B4"
LOOKS: dict[str, dict[str, Any]] = {
    "pruned": {"color": FAINT, "zorder": 1},
    "kept": {"color": "#555555", "zorder": 2},
    "ended": {"color": INK, "zorder": 3},
    "won": {"color": WON, "zorder": 4, "fontweight": "bold"},
}
EDGES = {"pruned": ("#DDDDDD", 0.7), "kept": ("#8C8C8C", 1.0), "ended": (INK, 1.0), "won": (WON, 2.4)}


class BeamNode(Protocol):
    """A candidate's word: the node before it, its step, its piece, its log-probability and what became of it."""

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
    """What is drawn: every node, the finished ones' ranks and scores, and the winner's alignment if there is one."""

    title: str
    subtitle: str
    nodes: Sequence[BeamNode]
    finished: Mapping[int, tuple[int, float]]  # last node of a finished line: its rank, from 1, and score
    source_pieces: Sequence[str] = ()
    alignment: NDArray[np.float32] | None = None  # (winner's words, source pieces)


def plot_beam(picture: BeamPicture, *, kind: Literal["png", "svg"] = "png") -> bytes:
    """The tree, its winner in bold, what was pruned faint, log-probabilities on the edges; the alignment below."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        data = _bytes(_composed(picture), kind)
    if any("missing from" in str(each.message) for each in heard):  # matplotlib says it of each letter, many times
        warnings.warn("the picture's font lacks some letters: they are drawn as boxes", AdviceWarning, stacklevel=2)
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


_PLAIN: dict[str, Any] = {"parse_math": False}  # a dollar sign in a text is a dollar sign


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    dpi = min(DPI, MOST_PIXELS / max(width, height))
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _draw_tree(axes: Axes, picture: BeamPicture, layout: Layout) -> None:
    axes.set_ylim(layout.bottom + 0.5, layout.top - 0.5)  # the first candidate on top
    axes.set_axis_off()
    for index, node in enumerate(picture.nodes):
        x, y = layout.x[node.step], layout.y[index]
        _draw_edge(axes, picture, layout, index)
        axes.text(x, y, shown(node.piece), va="center", fontsize=FONT, **_PLAIN, **LOOKS[node.status])
        if index in picture.finished:
            rank, score = picture.finished[index]
            look = {**LOOKS[node.status], "fontsize": 8}
            frame = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": look["color"], "linewidth": 0.8}
            text = f"#{rank}  {_signed(score, 3)}"
            axes.text(layout.after(node), y, text, va="center", bbox=frame, **_PLAIN, **look)


def _draw_edge(axes: Axes, picture: BeamPicture, layout: Layout, index: int) -> None:
    """A curve that leaves the parent and arrives level; the log-probability stands above its end."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    node = picture.nodes[index]
    colour, thickness = EDGES[node.status]
    end, y = layout.x[node.step] - 0.05, layout.y[index]
    if node.parent is None:
        start, from_y = layout.root, layout.root_y
    else:
        parent = picture.nodes[node.parent]
        start, from_y = layout.after(parent) - 0.05, layout.y[node.parent]
    level = end - layout.label  # from here on it is level, under its number
    middle = (layout.x[node.step] - layout.gap + level) / 2
    corners = [(start, from_y), (layout.x[node.step] - layout.gap, from_y)]
    corners += [(middle, from_y), (middle, y), (level, y), (end, y)]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    path = Path(np.array(corners), codes)
    axes.add_patch(
        PathPatch(path, facecolor="none", edgecolor=colour, linewidth=thickness, zorder=LOOKS[node.status]["zorder"])
    )
    look = {**LOOKS[node.status], "fontsize": 6.5, "fontweight": "normal"}
    axes.text(end - layout.label / 2, y - 0.06, _signed(node.nats, 2), ha="center", va="bottom", **_PLAIN, **look)


def _draw_alignment(axes: Axes, picture: BeamPicture, weights: NDArray[np.float32], layout: Layout) -> None:
    """A column under each step of the winner, a row for each source piece."""
    words, pieces = weights.shape
    edges = [layout.x[step] - layout.gap for step in range(words)] + [layout.end_of(words - 1)]
    axes.pcolormesh(edges, np.arange(pieces + 1), weights.T, cmap="Blues", vmin=0, vmax=1, edgecolors="white")
    axes.set_ylim(pieces, 0)
    axes.set_title(LOOKED, loc="left", fontsize=8.5, color="#777777", pad=5)
    axes.set_yticks(np.arange(pieces) + 0.5, [shown(piece) for piece in picture.source_pieces], **_PLAIN)
    winner = [node.piece for node in picture.nodes if node.status == "won"]
    centres = [(edges[n] + edges[n + 1]) / 2 for n in range(words)]
    axes.set_xticks(centres, [shown(piece) for piece in winner], **_PLAIN)
    axes.tick_params(length=0, labelsize=9, colors=INK)
    axes.spines[:].set_visible(False)


def _signed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _bytes(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """No version and no date in the file: equal searches are equal files."""
    from matplotlib import rc_context

    buffer = BytesIO()
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    with rc_context({"svg.hashsalt": "headway"}):
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()
