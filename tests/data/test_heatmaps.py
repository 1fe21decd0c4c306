from __future__ import annotations

import pytest
import torch

from headway.data.heatmaps import heatmaps, keypoints_of


@pytest.mark.parametrize(("image", "size"), [((64, 64), (32, 32)), ((256, 192), (64, 48)), ((40, 80), (20, 10))])
def test_a_keypoint_comes_back_from_its_map(image, size):
    torch.manual_seed(0)
    scale = torch.tensor([image[1] / size[1], image[0] / size[0]])
    inside = torch.tensor([size[1] - 3.0, size[0] - 3.0])
    places = (1.5 + torch.rand(5, 17, 2) * inside) * scale  # the outermost cells have no neighbour on one side
    maps = heatmaps(places, image=image, size=size, spread=1.3)
    assert maps.shape == (5, 17, *size)
    found, heights = keypoints_of(maps, image=image)
    torch.testing.assert_close(found, places, atol=2e-3, rtol=0)
    assert heights.min() > 0.8
    assert heights.max() <= 1


def test_at_an_edge_and_on_a_flat_map_the_cell_is_taken():
    maps = torch.zeros(1, 2, 8, 8)
    maps[0, 0, 0, 7] = 1.0
    found, heights = keypoints_of(maps, image=(16, 16))
    assert found[0, 0].tolist() == [15.0, 1.0]
    assert found[0, 1].tolist() == [1.0, 1.0]
    assert heights.tolist() == [[1.0, 0.0]]


def test_negative_maps_have_a_place_too():
    found, _ = keypoints_of(-torch.rand(2, 3, 6, 6) - 1, image=(6, 6))
    assert torch.isfinite(found).all()
    assert 0 <= found.min() <= found.max() <= 6
