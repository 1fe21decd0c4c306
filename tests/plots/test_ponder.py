from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image

from headway.errors import DataError
from headway.plots.ponder import plot_ponder


def test_a_map_of_rows_of_unequal_length_grows_with_them():
    small = plot_ponder([["a", "b", "c"]], [[1, 2, 5]], "steps")
    large = plot_ponder([["a"] * 30, ["b"] * 3], [[3] * 30, [1, 2, 3]], "steps", names=["source", "target"])
    sizes = [Image.open(BytesIO(data)).size for data in (small, large)]
    assert sizes[0][0] < sizes[1][0]
    assert sizes[0][1] < sizes[1][1]
    assert plot_ponder([["a", "b", "c"]], [[1, 2, 5]], "steps") == small


def test_tokens_that_all_took_the_same_are_drawn_too():
    assert plot_ponder([["a", "b"]], [[4, 4]], "fixed").startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(DataError, match="row 1: 1 labels for 2 counts of steps; expected the same"):
        plot_ponder([["a"], ["b"]], [[1], [1, 2]], "steps")
    with pytest.raises(DataError, match="nothing to draw"):
        plot_ponder([[]], [[]], "steps")
