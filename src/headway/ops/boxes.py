"""Boxes: conversions, intersection over union, and its generalised form (Rezatofighi et al. 2019).

A box is (centre x, centre y, width, height) where a model predicts it, and (left, top, right, bottom) where areas are
compared. Neither has a unit: shares of the image's sides and pixels are computed with alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-9  # an area that a division is safe with


def to_corners(boxes: Tensor) -> Tensor:
    """(…, 4) as centre x, centre y, width, height -> (…, 4) as left, top, right, bottom."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], -1)


def from_corners(corners: Tensor) -> Tensor:
    """(…, 4) as left, top, right, bottom -> (…, 4) as centre x, centre y, width, height."""
    low, high = corners[..., :2], corners[..., 2:]
    return torch.cat([(low + high) / 2, high - low], -1)


def box_iou(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Intersection over union of corners (…, 4) that broadcast, and the area of the union, both (…)."""
    low, high = first[..., :2].maximum(second[..., :2]), first[..., 2:].minimum(second[..., 2:])
    inside = (high - low).clamp(min=0).prod(-1)
    union = _area(first) + _area(second) - inside
    return inside / union.clamp(min=TINY), union


def generalised_iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union minus the share of the enclosing box that neither covers (…), from -1 to 1.

    Unlike the former alone it has a gradient where two boxes do not touch (Rezatofighi et al. 2019, algorithm 1).
    """
    iou, union = box_iou(first, second)
    low, high = first[..., :2].minimum(second[..., :2]), first[..., 2:].maximum(second[..., 2:])
    around = (high - low).clamp(min=0).prod(-1).clamp(min=TINY)
    return iou - (around - union) / around


def _area(corners: Tensor) -> Tensor:
    return (corners[..., 2:] - corners[..., :2]).clamp(min=0).prod(-1)
