from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from headway.errors import ConfigError, ShapeError
from headway.nn.norms import LayerNorm
from headway.nn.patches import (
    Hybrid,
    PatchEmbedding,
    Patches,
    Shifted,
    check_images,
    from_convolution,
    patchify,
    resize_grid,
    shift_diagonally,
    to_convolution,
)


def embedding(kind: Patches | Shifted, patch: int, channels: int = 3, width: int = 8) -> PatchEmbedding:
    torch.manual_seed(0)
    return PatchEmbedding(kind, patch=patch, channels=channels, width=width, norm=LayerNorm())


@pytest.mark.parametrize(
    ("channels", "height", "width", "patch"), [(3, 8, 8, 4), (1, 6, 9, 3), (2, 4, 10, 2), (3, 5, 5, 1)]
)
def test_patches_through_a_linear_layer_are_a_convolution(channels, height, width, patch):
    layer = embedding(Patches(), patch, channels)
    images = torch.randn(2, channels, height, width)
    kernel = to_convolution(layer.projection.weight, patch)
    expected = F.conv2d(images, kernel, layer.projection.bias, stride=patch).flatten(2).mT
    torch.testing.assert_close(layer(images), expected, atol=1e-6, rtol=1e-5)
    assert torch.equal(from_convolution(kernel), layer.projection.weight)


def test_the_order_inside_a_patch_is_rows_columns_channels():
    images = torch.arange(2 * 4 * 6.0).view(1, 2, 4, 6)
    tokens = patchify(images, 2)
    assert tokens.shape == (1, 6, 8)
    second = [images[0, c, y, x].item() for y in (0, 1) for x in (2, 3) for c in (0, 1)]
    assert tokens[0, 1].tolist() == second


@pytest.mark.parametrize("by", [1, 2, 3])
def test_shifts_are_those_of_a_slow_loop_inside_and_at_the_border(by):
    images = torch.randn(2, 2, 5, 7)
    shifted = shift_diagonally(images, by).unflatten(1, (5, 2))
    assert torch.equal(shifted[:, 0], images)
    # Whence the pixel at (y, x) comes: left-up, right-up, left-down, right-down.
    for copy, (down, right) in enumerate([(-by, -by), (-by, by), (by, -by), (by, by)], 1):
        for y in range(5):
            for x in range(7):
                inside = 0 <= y + down < 5 and 0 <= x + right < 7
                expected = images[:, :, y + down, x + right] if inside else torch.zeros(2, 2)
                assert torch.equal(shifted[:, copy, :, y, x], expected)


def test_shifted_patches_by_hand():
    layer = embedding(Shifted(), 4)
    with torch.no_grad():
        layer.norm.weight.normal_()
        layer.norm.bias.normal_()
    images = torch.randn(2, 3, 8, 12)
    rolled = [torch.roll(images, (y, x), (2, 3)) for y, x in ((0, 0), (2, 2), (2, -2), (-2, 2), (-2, -2))]
    for copy, (y, x) in zip(rolled[1:], ((2, 2), (2, -2), (-2, 2), (-2, -2)), strict=True):
        (copy[:, :, :y] if y > 0 else copy[:, :, y:]).zero_()
        (copy[..., :x] if x > 0 else copy[..., x:]).zero_()
    whole = torch.cat(rolled, 1)
    tokens = [
        whole[:, :, top : top + 4, left : left + 4].permute(0, 2, 3, 1).flatten(1)
        for top in (0, 4)
        for left in (0, 4, 8)
    ]
    normalised = F.layer_norm(torch.stack(tokens, 1), (240,), layer.norm.weight, layer.norm.bias)
    expected = F.linear(normalised, layer.projection.weight, layer.projection.bias)
    torch.testing.assert_close(layer(images), expected, atol=1e-5, rtol=1e-5)


def test_resizing_a_grid_leaves_the_class_token_alone_and_keeps_what_is_flat():
    positions = torch.randn(1 + 12, 6)
    assert resize_grid(positions, (3, 4), (3, 4)) is positions
    larger = resize_grid(positions, (3, 4), (5, 9))
    assert larger.shape == (1 + 45, 6)
    assert torch.equal(larger[0], positions[0])
    flat = torch.cat([positions[:1], positions[1:2].expand(12, -1)])
    torch.testing.assert_close(resize_grid(flat, (3, 4), (7, 2))[1:], flat[1:2].expand(14, -1))
    assert resize_grid(positions[1:], (3, 4), (6, 8)).shape == (48, 6)  # no class token


def test_resizing_keeps_rows_and_columns_apart():
    """A grid that grows downwards still does, and is level sideways."""
    rows = torch.arange(4.0).repeat_interleave(4).unsqueeze(-1)
    grid = resize_grid(rows, (4, 4), (8, 6)).view(8, 6)
    assert (grid.diff(dim=0) > 0).all()
    torch.testing.assert_close(grid, grid[:, :1].expand(-1, 6))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_resizing_keeps_the_type(dtype):
    positions = torch.randn(5, 3, dtype=torch.float64)
    grown = resize_grid(positions.to(dtype), (2, 2), (3, 3))
    assert grown.dtype == dtype
    tolerance = 1e-12 if dtype == torch.float64 else 0.05
    torch.testing.assert_close(grown.double(), resize_grid(positions, (2, 2), (3, 3)), atol=tolerance, rtol=0)


def test_too_few_positions_for_the_grid():
    with pytest.raises(ShapeError, match="8 positions are too few for a grid of 3 x 3"):
        resize_grid(torch.zeros(8, 2), (3, 3), (4, 4))


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (torch.zeros(3, 8, 8), r"shape \(3, 8, 8\), expected \(B, 3, height, width\)"),
        (torch.zeros(2, 8, 8, 3), r"shape \(2, 8, 8, 3\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), "torch.uint8, expected floating point"),
        (torch.zeros(2, 3, 0, 8), "expected at least one pixel"),
    ],
)
def test_invalid_images_raise(images, said):
    with pytest.raises(ShapeError, match=said):
        check_images(images, 3)


def test_patches_that_do_not_fill_the_image_and_shifts_of_nothing():
    with pytest.raises(ConfigError, match="9 x 8 pixels is not filled by patches of 4 x 4"):
        patchify(torch.zeros(1, 3, 9, 8), 4)
    with pytest.raises(ConfigError, match="patch=1"):
        embedding(Shifted(), 1)


def test_places_of_a_map_lie_where_patches_would():
    layer = embedding(Hybrid(widths=(4, 6)), 4).eval()
    images = torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    tokens = layer(images)
    assert tokens.shape == (2, 6, 8)
    seen = layer.convolutions(images)[:, :, 1, 2]  # the second row's last place
    torch.testing.assert_close(tokens[:, 5], layer.projection(seen))
    with pytest.raises(ConfigError, match="patch=8: 2 blocks need patch=4"):
        embedding(Hybrid(widths=(4, 6)), 8)
