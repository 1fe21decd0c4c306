from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from headway.data.images import ImageStore
from headway.data.synthetic.drawing import SHAPES, Objects, coverage
from headway.data.synthetic.shapes import COLOURS, COUNTS, NAMES, RELATIONS, captions, is_unseen, load_shapes, scenes
from headway.data.synthetic.stick_figures import KEYPOINTS, figures
from headway.errors import DataError

PALETTE = np.array(list(COLOURS.values())) * 255


def test_scenes_are_drawn_from_their_seed():
    first, again, other = (scenes(12, size=24, seed=seed) for seed in (1, 1, 2))
    assert first.pixels.shape == (12, 3, 24, 24)
    assert first.pixels.dtype == np.uint8
    assert np.array_equal(first.pixels, again.pixels)
    assert not np.array_equal(first.pixels, other.pixels)


def test_some_pairs_are_never_trained_on():
    seen, unseen = scenes(3000, size=16, seed=0), scenes(300, size=16, seed=0, unseen=True)
    trained = set(zip(seen.shapes.tolist(), seen.colours.tolist(), strict=True))
    kept = set(zip(unseen.shapes.tolist(), unseen.colours.tolist(), strict=True))
    assert not trained & kept
    assert len(trained) == len(SHAPES) * len(COLOURS) - len(kept)
    assert {shape for shape, _ in kept} == set(range(len(SHAPES)))  # every word is known, the pair is not
    assert {colour for _, colour in kept} == set(range(len(COLOURS)))
    assert len(SHAPES) >= 6
    assert len(COLOURS) >= 8


def test_the_main_object_has_its_colour_in_the_middle():
    drawn = scenes(400, size=32, seed=3)
    solid = np.isin(drawn.shapes, [SHAPES.index(name) for name in ("circle", "square", "triangle", "star", "cross")])
    near = np.abs(drawn.pixels.transpose(0, 2, 3, 1)[:, :, :, None] - PALETTE[None, None, None]).sum(-1).argmin(-1)
    share = (near[:, 12:20, 12:20] == drawn.colours[:, None, None]).mean((1, 2))
    assert (share[solid] > 0.5).mean() > 0.8


def test_an_outline_covers_the_area_it_should():
    def area(name, angle):
        one = np.array([0.5])
        objects = Objects(np.array([SHAPES.index(name)]), one, one, np.array([0.4]), np.array([angle]), one)
        return float(coverage(objects, 64).sum()) / (64 * 0.4) ** 2

    assert area("circle", 0.0) == pytest.approx(np.pi * 0.9**2, rel=0.01)
    assert area("square", 0.3) == pytest.approx(1.6**2, rel=0.01)
    assert area("triangle", 1.0) == pytest.approx(0.75 * np.sqrt(3), rel=0.02)
    assert area("ring", 0.0) == pytest.approx(np.pi * (0.9**2 - 0.5**2), rel=0.02)
    assert area("bar", 0.7) == pytest.approx(2 * 0.64, rel=0.02)


def test_captions_say_what_is_there():
    pixels, texts = captions(200, size=48, seed=4)
    assert pixels.shape == (200, 3, 48, 48)
    apart = np.abs(pixels.transpose(0, 2, 3, 1)[:, :, :, None] - PALETTE).sum(-1)
    told, right = 0, 0
    for n, text in enumerate(texts):
        relation = next(each for each in RELATIONS if f" {each} " in text)
        pair = [part.split()[1:] for part in text.split(f" {relation} ")]
        assert all(colour in NAMES and shape in SHAPES for colour, shape in pair)
        found = [np.argwhere(apart[n, :, :, NAMES.index(colour)] < 75) for colour, _ in pair]
        if pair[0][0] == pair[1][0] or min(map(len, found)) < 10:
            continue
        (y, x), (v, u) = (np.median(each, axis=0) for each in found)
        told += 1
        right += {"left of": x < u, "right of": x > u, "above": y < v, "below": y > v}[relation]
    assert told > 100
    assert right > 0.93 * told  # a background may have an object's colour
    assert len(set(texts)) > 190
    assert all(text.startswith(("a ", "an ")) for text in texts)


def test_unseen_captions_begin_with_an_unseen_pair():
    _, texts = captions(100, size=16, seed=0, unseen=True)
    for text in texts:
        colour, shape = text.split()[1:3]
        assert is_unseen(np.array(SHAPES.index(shape)), np.array(NAMES.index(colour)))


def test_keypoints_lie_on_the_figure():
    drawn = figures(60, size=64, seed=2)
    assert drawn.keypoints.shape == (60, 17, 3)
    assert len(KEYPOINTS) == 17
    assert np.array_equal(drawn.pixels, figures(60, size=64, seed=2).pixels)
    assert set(np.unique(drawn.keypoints[:, :, 2])) <= {0.0, 2.0}
    assert (drawn.keypoints[:, :, 2] == 2).mean() > 0.95
    assert (drawn.areas > 0).all()
    blue, red = KEYPOINTS.index("left_knee"), KEYPOINTS.index("right_knee")
    told = 0
    for pixels, points in zip(drawn.pixels.astype(int), drawn.keypoints, strict=True):
        (x, y, _), (u, v, _) = points[blue], points[red]
        left, right = pixels[:, int(y), int(x)], pixels[:, int(v), int(u)]
        told += (left[2] - left[0] > 0) and (right[0] - right[2] > 0)
    assert told > 54


def test_the_built_in_set_is_drawn_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("headway.data.synthetic.shapes.COUNTS", dict.fromkeys(COUNTS, 30))
    made = load_shapes(16, tmp_path, lambda what, done, total: None)
    assert made.classes == SHAPES
    assert set(made.splits) == {"train", "val", "test", "unseen"}
    monkeypatch.setattr("headway.data.synthetic.shapes.scenes", None)
    again = load_shapes(16, tmp_path, lambda what, done, total: None)
    assert again.contents == made.contents
    assert isinstance(again.splits["val"], ImageStore)
    with pytest.raises(DataError, match="shapes at 8 pixels, allowed: 16 and above"):
        load_shapes(8, tmp_path, lambda what, done, total: None)


@pytest.mark.slow  # a minute or two of training
def test_two_layers_of_convolution_on_half_the_data_do_not_get_there():
    half, test = scenes(COUNTS["train"] // 2, size=32, seed=0), scenes(2000, size=32, seed=2)
    images, wanted = (torch.from_numpy(each.pixels) / 127.5 - 1 for each in (half, test))
    labels, expected = (torch.from_numpy(each.shapes) for each in (half, test))
    first, second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
    middle = (nn.ReLU(), nn.MaxPool2d(2))
    model = nn.Sequential(first, *middle, second, *middle, nn.Flatten(), nn.Linear(64 * 8 * 8, len(SHAPES)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(10):
        for rows in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimiser.step()
    accuracy = (model(wanted).argmax(1) == expected).float().mean()
    assert 0.6 < accuracy < 0.95
