"""Position formulas: published values, and the properties they are chosen for."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import ShapeError
from headway.ops import (
    alibi_slopes,
    rotary_angles,
    rotate,
    sinusoids,
)

CPU = torch.device("cpu")
FLOAT32 = {"rtol": 1e-5, "atol": 1e-5}


# --- ALiBi ---


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, [1 / 256]),
        (2, [1 / 16, 1 / 256]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]),
        (
            12,
            [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
        ),
    ],
)
def test_alibi_slopes_are_the_published_ones(heads, slopes):
    torch.testing.assert_close(alibi_slopes(heads), torch.tensor(slopes), rtol=1e-7, atol=0)


@pytest.mark.parametrize("heads", range(1, 20))
def test_alibi_gives_every_head_its_own_slope_below_one(heads):
    slopes = alibi_slopes(heads)
    assert slopes.shape == (heads,)
    assert slopes.unique().numel() == heads
    assert (slopes > 0).all()
    assert (slopes < 1).all()


# --- sinusoids ---


def test_sinusoids_are_the_known_answers_for_width_four():
    got = sinusoids(torch.arange(3), 4)
    assert got.dtype == torch.float32
    expected = [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.0100, 0.99995], [0.9093, -0.4161, 0.0200, 0.9998]]
    torch.testing.assert_close(got, torch.tensor(expected), rtol=0, atol=5e-5)


def test_sinusoids_are_the_paper_formula_written_out():
    width, t = 10, 37
    expected = [f(t / 10000 ** (2 * i / width)) for i in range(width // 2) for f in (math.sin, math.cos)]
    torch.testing.assert_close(sinusoids(torch.tensor(t), width), torch.tensor(expected))


def test_the_halves_layout_is_the_paper_with_its_features_permuted():
    positions = torch.arange(50)
    paper, halves = sinusoids(positions, 16), sinusoids(positions, 16, "halves")
    assert torch.equal(halves, torch.cat([paper[:, 0::2], paper[:, 1::2]], dim=-1))


def test_the_tensor2tensor_layout_is_halves_with_frequencies_down_to_one_over_base():
    positions = torch.arange(50, dtype=torch.float64)
    got = sinusoids(positions, 16, "tensor2tensor")
    angles = positions[:, None] * torch.logspace(0, -4, 8, dtype=torch.float64)
    torch.testing.assert_close(got, torch.cat([angles.sin(), angles.cos()], dim=-1).float())
    assert not torch.allclose(got, sinusoids(positions, 16, "halves"), atol=1e-2)


@pytest.mark.parametrize("layout", ["paper", "halves", "tensor2tensor"])
def test_the_product_of_two_codes_tells_only_their_distance_and_each_has_the_same_norm(layout):
    width, positions = 16, torch.arange(40)
    codes = sinusoids(positions, width, layout).double()
    exponents = torch.arange(8) / 7 if layout == "tensor2tensor" else torch.arange(8) / 8
    rates = 10000.0 ** -exponents.double()
    distance = (positions[:, None] - positions).double()
    torch.testing.assert_close(codes @ codes.T, (distance.unsqueeze(-1) * rates).cos().sum(-1), **FLOAT32)
    torch.testing.assert_close(codes.norm(dim=-1), torch.full((40,), math.sqrt(width / 2), dtype=torch.float64))


@pytest.mark.parametrize("shift", [1, 7, -3])
def test_a_shift_in_position_is_one_rotation_of_every_pair(shift):
    width, positions = 8, torch.arange(5, 30)
    turn = torch.zeros(width, width, dtype=torch.float64)
    for i in range(width // 2):
        angle = shift * 10000 ** (-2 * i / width)
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        )
    shifted = sinusoids(positions, width).double() @ turn.T
    torch.testing.assert_close(shifted.float(), sinusoids(positions + shift, width), **FLOAT32)


def test_sinusoids_take_positions_of_any_shape_and_stay_exact_far_out():
    positions = torch.tensor([[0, 1, 2], [7, 8, 1_000_003]])
    codes = sinusoids(positions, 6)
    assert codes.shape == (2, 3, 6)
    assert torch.equal(codes[1, 0], sinusoids(torch.tensor(7), 6))
    assert codes[1, 2, 0].item() == pytest.approx(math.sin(1_000_003), abs=1e-6)


def test_sinusoids_of_an_odd_width_raise():
    with pytest.raises(ShapeError, match="5"):
        sinusoids(torch.arange(3), 5)


# --- rotary ---

LAYOUTS = ("interleaved", "halves")


def test_rotary_is_the_known_vector_of_roformer():
    q = (torch.arange(2 * 12 * 16 * 64) / 100).view(2, 12, 16, 64)
    got = rotate(q, *rotary_angles(torch.arange(16), 64), "interleaved")
    first = torch.tensor([0.0000, 0.0100, 0.0200, 0.0300, 0.0400, 0.0500, 0.0600, 0.0700])
    second = torch.tensor([-0.2012, 0.8897, 0.0263, 0.9401, 0.2074, 0.9463, 0.3481, 0.9343])
    torch.testing.assert_close(got[0, 0, 0, :8], first, rtol=0, atol=1e-6)
    torch.testing.assert_close(got[0, 0, 1, :8], second, rtol=0, atol=1e-4)


def test_rotary_angles_are_the_formula_in_float32():
    cos, sin = rotary_angles(torch.tensor([0, 3]), 6, base=100.0)
    rates = [1.0, 100 ** (-1 / 3), 100 ** (-2 / 3)]
    assert cos.dtype == sin.dtype == torch.float32
    torch.testing.assert_close(cos, torch.tensor([[math.cos(t * rate) for rate in rates] for t in (0, 3)]))
    torch.testing.assert_close(sin, torch.tensor([[math.sin(t * rate) for rate in rates] for t in (0, 3)]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotary_turns_its_pairs_counterclockwise(layout):
    cos, sin = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])  # the first pair by 90°, the second not at all
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 1, 4)
    expected = {"interleaved": [-2.0, 1.0, 3.0, 4.0], "halves": [-3.0, 2.0, 1.0, 4.0]}
    assert rotate(x, cos, sin, layout).flatten().tolist() == expected[layout]


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=50)
@given(m=st.integers(0, 200), n=st.integers(0, 200), shift=st.integers(0, 200), seed=st.integers(0, 99))
def test_a_rotated_product_tells_only_the_distance(layout, m, n, shift, seed):
    stream = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64, generator=stream)

    def product(i: int, j: int) -> float:
        turned_q = rotate(q, *rotary_angles(torch.tensor([i]), 16), layout)
        turned_k = rotate(k, *rotary_angles(torch.tensor([j]), 16), layout)
        return (turned_q * turned_k).sum().item()

    # Angles are float32 and reach 400: a few times 400·2⁻²⁴ each.
    assert product(m + shift, n + shift) == pytest.approx(product(m, n), abs=2e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotation_keeps_norms_and_leaves_position_zero_alone(layout):
    x = torch.randn(2, 3, 50, 16)
    turned = rotate(x, *rotary_angles(torch.arange(50), 16), layout)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert not torch.allclose(turned[:, :, 1:], x[:, :, 1:], atol=1e-2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turning_twice_is_turning_by_the_sum(layout):
    x = torch.randn(1, 2, 10, 8)
    once = rotate(x, *rotary_angles(torch.arange(10), 8), layout)
    twice = rotate(once, *rotary_angles(torch.full((10,), 5), 8), layout)
    torch.testing.assert_close(twice, rotate(x, *rotary_angles(torch.arange(10) + 5, 8), layout), **FLOAT32)


def test_the_two_layouts_are_equal_after_permuting_the_features():
    x = torch.randn(2, 3, 9, 16)
    cos, sin = rotary_angles(torch.arange(9), 16)
    order = [*range(0, 16, 2), *range(1, 16, 2)]  # feature i of halves is 2i, i + E/2 is 2i + 1
    assert torch.equal(rotate(x[..., order], cos, sin, "halves"), rotate(x, cos, sin, "interleaved")[..., order])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_for_each_row_equal_a_call_for_each_row(layout):
    x = torch.randn(3, 2, 4, 8)
    positions = torch.tensor([[0, 1, 2, 3], [10, 11, 12, 13], [7, 3, 100, 0]])
    together = rotate(x, *rotary_angles(positions, 8), layout)
    for b in range(3):
        alone = rotate(x[b : b + 1], *rotary_angles(positions[b], 8), layout)
        torch.testing.assert_close(together[b : b + 1], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_precision_is_turned_in_float32_and_rounded_once(layout):
    x = torch.randn(1, 2, 600, 8, dtype=torch.bfloat16)
    cos, sin = rotary_angles(torch.arange(600), 8)
    got = rotate(x, cos, sin, layout)
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, rotate(x.float(), cos, sin, layout).bfloat16())
