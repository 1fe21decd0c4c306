from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from headway.errors import AdviceWarning
from headway.plots.beam import LONGEST, BeamPicture, Layout, _composed, display_text, plot_beam, spread_rows


@dataclass(frozen=True)
class Word:
    parent: int | None
    step: int
    piece: str
    nats: float
    status: str


def search(beam: int, steps: int, seed: int = 0) -> tuple[list[Word], dict[int, tuple[int, float]]]:
    """A tree as a beam of this width grows it: the first candidates of a step stay open, the very first wins."""
    random = np.random.default_rng(seed)
    nodes: list[Word] = []
    slots: list[int | None] = [None]
    won: int | None = None
    for step in range(steps):
        made = []
        for n in range(2 * beam):
            parent = won if n == 0 else slots[random.integers(len(slots))]
            status = "won" if n == 0 else "kept" if n < beam else "pruned"
            letters = "".join(random.choice(list("MWilé$_"), random.integers(1, 12)))
            nodes.append(Word(parent, step, letters, float(-random.exponential(3)), status))
            made.append(len(nodes) - 1)
        slots, won = list(made[:beam]), made[0]
    finished = {index: (rank, -1.5) for rank, index in enumerate(slots, 1)}
    return nodes, finished


def picture(beam: int = 4, steps: int = 10, seed: int = 0, **settings) -> BeamPicture:
    nodes, finished = search(beam, steps, seed)
    return BeamPicture(title="a $title$ → x", subtitle="beam", nodes=nodes, finished=finished, **settings)


def aligned(steps: int = 10) -> dict:
    weights = np.random.default_rng(1).dirichlet(np.ones(6), steps).astype(np.float32)
    return {"source_pieces": ["the", "$5$", "\n", "", "horse", "</s>"], "alignment": weights}


@pytest.mark.parametrize(("beam", "seed"), [(1, 0), (4, 0), (4, 1), (4, 2), (8, 3)])
def test_no_text_of_the_tree_lies_on_another_or_outside(beam, seed):
    figure = _composed(picture(beam, 10, seed, **aligned()))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 2 * 2 * beam * 10 + beam
    for one, other in itertools.combinations(boxes, 2):
        wide = min(one.x1, other.x1) - max(one.x0, other.x0)
        high = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert min(wide, high) < 2, (one, other)  # pixels
    for box in [*boxes, *(label.get_window_extent() for label in figure.axes[1].get_yticklabels())]:
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1


def test_png_and_svg_are_the_same_bytes_each_time():
    drawn = picture(**aligned())
    assert plot_beam(drawn).startswith(b"\x89PNG\r\n\x1a\n")
    assert plot_beam(drawn) == plot_beam(drawn)
    vector = plot_beam(drawn, kind="svg")
    assert b"<svg" in vector
    assert vector == plot_beam(drawn, kind="svg")


def test_the_winner_is_a_straight_line_in_bold():
    drawn = picture()
    layout = Layout.of(drawn.nodes, drawn.finished)
    won = [layout.y[n] for n, node in enumerate(drawn.nodes) if node.status == "won"]
    assert max(won) - min(won) < 1e-3
    assert len({text.get_fontweight() for text in _composed(drawn).axes[0].texts}) == 2


def test_without_attention_there_is_a_tree_alone():
    assert len(_composed(picture()).axes) == 1
    assert len(_composed(picture(**aligned())).axes) == 2


def test_a_long_search_is_drawn_coarser():
    figure = _composed(picture(1, 150))
    assert max(figure.get_size_inches() * figure.dpi) <= 16_001


@pytest.mark.parametrize("seed", range(5))
def test_places_are_apart_in_order_and_where_they_want_to_be_if_there_is_room(seed):
    random = np.random.default_rng(seed)
    wanted, weights = sorted(random.uniform(0, 9, 12)), random.uniform(0.1, 10, 12)
    places = spread_rows(wanted, weights)
    assert (np.diff(places) >= 1 - 1e-9).all()
    assert spread_rows([0, 2, 5], [1, 1, 1]) == [0, 2, 5]
    np.testing.assert_allclose(spread_rows([0, 0], [1e9, 1]), [0, 1], atol=1e-6)


def test_letters_the_font_lacks_are_told_once():
    with pytest.warns(AdviceWarning, match="lacks some characters") as heard:
        plot_beam(picture(1, 2, source_pieces=["马", "花园"], alignment=np.full((2, 2), 0.5, np.float32)))
    assert len(heard) == 1


def test_pieces_are_shown_in_one_line_and_never_empty():
    assert display_text(" le") == "le"
    assert display_text("\n") == display_text("") == "␣"
    assert display_text("a\x1bb") == "a·b"
    assert len(display_text("x" * 99)) == LONGEST
