from __future__ import annotations

import pytest
import torch

from headway.ops.boxes import box_iou, from_corners, generalised_iou, to_corners


def boxes(count: int, seed: int) -> torch.Tensor:
    """As centre and sides, all inside the unit square."""
    generator = torch.Generator().manual_seed(seed)
    low, high = torch.rand(2, count, 2, generator=generator, dtype=torch.float64).sort(0).values
    return from_corners(torch.cat([low, high], 1))


def test_conversions_are_there_and_back():
    given = boxes(50, 0)
    torch.testing.assert_close(from_corners(to_corners(given)), given)
    assert to_corners(torch.tensor([0.5, 0.25, 0.2, 0.1])).tolist() == pytest.approx([0.4, 0.2, 0.6, 0.3])


def test_iou_is_the_share_of_pixels_in_both():
    """Counted on a fine grid."""
    first, second = to_corners(boxes(20, 1)), to_corners(boxes(20, 2))
    at = (torch.arange(400, dtype=torch.float64) + 0.5) / 400

    def covered(corners):
        x = (at >= corners[:, :1]) & (at <= corners[:, 2:3])
        y = (at >= corners[:, 1:2]) & (at <= corners[:, 3:])
        return y[:, :, None] & x[:, None]

    a, b = covered(first), covered(second)
    expected = (a & b).sum((1, 2)) / (a | b).sum((1, 2))
    torch.testing.assert_close(box_iou(first, second)[0], expected.double(), atol=0.03, rtol=0.05)


def test_generalised_iou_by_hand():
    square = torch.tensor([0.0, 0.0, 2.0, 2.0])
    cases = {
        (0.0, 0.0, 2.0, 2.0): 1.0,
        (1.0, 0.0, 3.0, 2.0): 1 / 3,  # the enclosing box is the union
        (4.0, 0.0, 6.0, 2.0): -4 / 12,  # 8 of 12 are covered
        (1.0, 1.0, 3.0, 3.0): 1 / 7 - 2 / 9,
    }
    for other, expected in cases.items():
        assert float(generalised_iou(square, torch.tensor(other))) == pytest.approx(expected)


def test_properties_of_generalised_iou():
    first, second = to_corners(boxes(100, 3)), to_corners(boxes(100, 4))
    found = generalised_iou(first, second)
    torch.testing.assert_close(found, generalised_iou(second, first))
    torch.testing.assert_close(found, generalised_iou(7 * first + 3, 7 * second + 3))
    assert ((found >= -1) & (found <= box_iou(first, second)[0] + 1e-12)).all()


def test_boxes_that_do_not_touch_are_drawn_together():
    box = torch.tensor([0.2, 0.2, 0.1, 0.1], requires_grad=True)
    generalised_iou(to_corners(box), to_corners(torch.tensor([0.8, 0.2, 0.1, 0.1]))).backward()
    assert box.grad[0] > 0


def test_a_box_without_area_has_finite_numbers():
    point = torch.tensor([[0.5, 0.5, 0.0, 0.0]], requires_grad=True)
    found = generalised_iou(to_corners(point), to_corners(point.detach()))
    found.sum().backward()
    assert found.isfinite().all()
    assert point.grad.isfinite().all()
