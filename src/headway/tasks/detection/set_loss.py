"""The loss of a set of predictions (Carion et al. 2020, section 3.1): matched to the objects, then compared.

Each object is matched to one query so that the total cost is least; the cost of a pair is the negative probability of
the object's class, the L1 distance of the boxes and their generalised intersection over union (equation 1 and appendix
A.2). Unmatched queries are to say "no object".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.assignment import assign
from headway.ops.boxes import generalised_iou, to_corners

HUGE = 1e9  # a cost in place of an infinite one


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What the parts of cost and loss weigh beside one another."""

    classes: float
    distance: float
    overlap: float
    nothing: float  # of "no object" beside the other classes


@dataclass(frozen=True, slots=True)
class SetLoss:
    """Sums over the objects of a batch: the cross-entropy, the L1 distance, and 1 - generalised IoU."""

    classes: Tensor
    distance: Tensor
    overlap: Tensor

    def plus(self, other: SetLoss, weight: float) -> SetLoss:
        """The sums of both, the other's weighed."""
        return SetLoss(
            self.classes + weight * other.classes,
            self.distance + weight * other.distance,
            self.overlap + weight * other.overlap,
        )


@torch.no_grad()
def match(logits: Tensor, boxes: Tensor, targets: Tensor, weights: Weights) -> Tensor:
    """The query of each object (P, M), -1 for padding: of the least total cost in each row.

    Logits (P, N, classes + 1), boxes (P, N, 4), targets (P, M, 5): a box and its class, negative for padding.
    """
    wanted = targets[..., 4].long()
    there = wanted >= 0
    chances = logits.float().softmax(-1)
    of_class = chances.gather(2, wanted.clamp(min=0)[:, None].expand(-1, logits.shape[1], -1)).mT  # (P, M, N)
    away = (targets[:, :, None, :4] - boxes[:, None].float()).abs().sum(-1)
    alike = generalised_iou(to_corners(targets[:, :, None, :4]), to_corners(boxes[:, None].float()))
    cost = -weights.classes * of_class + weights.distance * away - weights.overlap * alike
    # Objects come first, so that those of a row are counted.
    order = (~there).int().argsort(dim=1, stable=True)
    sorted_cost = cost.gather(1, order[..., None].expand_as(cost))
    # Costs that are NaN are matched anyhow: the loss is NaN then, which the trainer knows what to do about.
    numbers = sorted_cost.double().nan_to_num(nan=0.0, posinf=HUGE, neginf=-HUGE).cpu().numpy()
    chosen = assign(numbers, there.sum(1).cpu().numpy())
    placed = np.full_like(chosen, -1)
    np.put_along_axis(placed, order.cpu().numpy(), chosen, 1)
    return torch.from_numpy(placed).to(logits.device)


def set_loss(logits: Tensor, boxes: Tensor, targets: Tensor, weights: Weights) -> SetLoss:
    """The sums of the loss of rows (P, …) as `match` takes them. The order of a row's objects changes nothing.

    The cross-entropy is summed over all queries, those without an object weighed by `weights.nothing`.
    """
    chosen = match(logits, boxes, targets, weights)
    row, number = torch.nonzero(chosen >= 0, as_tuple=True)
    query = chosen[row, number]
    nothing = logits.shape[-1] - 1
    classes = torch.full(logits.shape[:2], nothing, dtype=torch.long, device=logits.device)
    classes[row, query] = targets[row, number, 4].long()
    each = logits.new_ones(nothing + 1, dtype=torch.float32)
    each[nothing] = weights.nothing
    entropy = F.cross_entropy(logits.float().flatten(0, 1), classes.flatten(), weight=each, reduction="sum")
    found, wanted = boxes[row, query].float(), targets[row, number, :4]
    return SetLoss(
        classes=entropy,
        distance=(found - wanted).abs().sum(),
        overlap=(1 - generalised_iou(to_corners(found), to_corners(wanted))).sum(),
    )
