from __future__ import annotations

import numpy as np
import pytest

from headway.data import boxes as module
from headway.data.boxes import BoxReading, letterboxed, load_scattered_figures, load_scattered_shapes
from headway.data.image_decoding import open_image
from headway.data.synthetic.drawing import SHAPES, Objects, coverage
from headway.data.synthetic.scattered import (
    OVERLAP,
    Scattered,
    _iou,
    scattered_figures,
    scattered_shapes,
    shape_extents,
)
from headway.errors import DataError


def silent(what, done, total):
    pass


@pytest.mark.parametrize("draw", [scattered_shapes, scattered_figures])
def test_a_set_is_a_function_of_its_seed(draw):
    first, again, other = (draw(6, size=32, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.pixels, again.pixels)
    assert np.array_equal(first.boxes, again.boxes)
    assert not np.array_equal(first.pixels, other.pixels)
    assert first.pixels.shape == (6, 3, 32, 32)


def there(found: Scattered):
    return [(n, box, label) for n in range(len(found.pixels)) for box, label in zip(found.boxes[n], found.classes[n],
            strict=True) if label >= 0]  # fmt: skip


@pytest.mark.parametrize("draw", [scattered_shapes, scattered_figures])
def test_boxes_lie_in_their_image_and_overlap_little(draw):
    found = draw(150, size=40, seed=0)
    counts = (found.classes >= 0).sum(1)
    assert counts.min() == 0
    assert counts.max() == found.classes.shape[1]
    for n in range(150):
        mine = found.boxes[n][found.classes[n] >= 0]
        assert (mine >= 0).all()
        assert (mine <= 40).all()
        assert (mine[:, 2:] > mine[:, :2]).all()
        overlaps = _iou(mine[:, None], mine[None])
        assert overlaps[~np.eye(len(mine), dtype=bool)].max(initial=0) <= OVERLAP + 1e-5


def test_a_shapes_extent_is_that_of_its_pixels():
    """Drawn large, the pixels that are covered reach as far as the box, to a pixel."""
    random = np.random.default_rng(3)
    shape, angle = np.arange(len(SHAPES)).repeat(4), random.uniform(0, 2 * np.pi, 4 * len(SHAPES))
    half = np.full(len(shape), 0.5)
    covered = (
        coverage(Objects(shape, half, half, np.full(len(shape), 0.4), angle, np.zeros((len(shape), 3))), 200) > 0.5
    )
    extents = (0.5 + 0.4 * shape_extents(shape, angle)) * 200
    for each, expected in zip(covered, extents, strict=True):
        rows, columns = np.flatnonzero(each.any(1)), np.flatnonzero(each.any(0))
        found = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        np.testing.assert_allclose(found, expected, atol=1.6)


def test_what_is_drawn_lies_in_the_box_of_its_figure():
    """Outside of all boxes an image is its smooth background."""
    found = scattered_figures(20, size=64, seed=5)
    for n in range(20):
        outside = np.ones((64, 64), bool)
        for left, top, right, bottom in found.boxes[n][found.classes[n] >= 0]:
            outside[max(int(top) - 1, 0) : int(bottom) + 2, max(int(left) - 1, 0) : int(right) + 2] = False
        pixels = found.pixels[n].astype(np.float64)
        y, x = np.nonzero(outside)
        plane = np.stack([x, y, np.ones_like(x)], 1)
        for channel in pixels:
            rest = channel[outside] - plane @ np.linalg.lstsq(plane, channel[outside], rcond=None)[0]
            assert np.abs(rest).max() < 6.5 * max(rest.std(), 1.0)


def test_held_out_combinations_are_only_in_unseen(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COUNTS", {"train": 30, "val": 4, "test": 4, "unseen": 12})
    found = load_scattered_shapes(BoxReading(size=32, cache=tmp_path), silent)
    assert found.classes == SHAPES
    assert {name: len(store) for name, store in found.splits.items()} == {
        "train": 30,
        "val": 4,
        "test": 4,
        "unseen": 12,
    }
    again = load_scattered_shapes(BoxReading(size=32, cache=tmp_path), silent)
    assert again.contents == found.contents
    assert len(set(found.contents.values())) == 4


def test_targets_are_shares_of_the_image(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FIGURES", {"train": 12, "val": 2})
    found = load_scattered_figures(BoxReading(size=32, cache=tmp_path), silent)
    store = found.splits["train"]
    targets = store.targets(5)
    assert targets.shape == (12, 5, 5)
    assert ((targets[:, :, 4] >= 0).sum(1) == np.diff(store.starts)).all()
    assert (targets[targets[:, :, 4] < 0][:, :4] == 0).all()
    n = int(np.argmax(np.diff(store.starts) > 0))
    x, y, width, height = store.boxes[store.starts[n]]
    np.testing.assert_allclose(targets[n, 0], [(x + width / 2) / 32, (y + height / 2) / 32, width / 32, height / 32, 0],
                               rtol=1e-5)  # fmt: skip
    assert store.most == int(np.diff(store.starts).max())


def test_other_classes_or_a_small_size_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FIGURES", {"train": 2, "val": 2})
    with pytest.raises(DataError, match="figures at 16 pixels, allowed: 32 and above"):
        load_scattered_figures(BoxReading(size=16, cache=tmp_path), silent)
    with pytest.raises(DataError, match="figures has the classes person; the run knows cat, dog"):
        load_scattered_figures(BoxReading(size=32, cache=tmp_path, classes=("cat", "dog")), silent)


def test_a_letterboxed_image_keeps_its_shape(tmp_path):
    from PIL import Image

    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, 20:] = 255
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    made, size, scale = letterboxed((tmp_path / "wide.png").read_bytes(), "wide.png", 80)
    assert (made.shape, size, scale) == ((3, 80, 80), (40, 20), 2.0)
    assert (made[:, 41:] == 128).all()
    assert (made[:, :39, 45:] == 255).all()
    assert (made[:, :39, :35] == 0).all()
    assert open_image((tmp_path / "wide.png").read_bytes(), "x").size == size
