"""The training loop of labs that train a small model: no run folder, no checkpoints. It is not a lab."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headway.labs.frame import progress


def fit(
    model: nn.Module, loss: Callable[[int], Tensor], *, steps: int, rate: float = 3e-3, what: str = "training"
) -> list[float]:
    """Adam for `steps` steps on `loss(step)`, its rate falling linearly after a tenth of warm-up -> the losses.

    The model is left in evaluation mode.
    """
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    warm_up = max(1, steps // 10)
    losses = []
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min((step + 1) / warm_up, (steps - step) / max(1, steps - warm_up), 1.0)
        value = loss(step)
        optimiser.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(value.item())
        progress(what, step + 1, steps)
    model.eval()
    return losses


@torch.no_grad()
def share_right(model: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor, batch: int = 500) -> float:
    """The share of examples whose likeliest class (B, classes) is theirs."""
    parts = zip(inputs.split(batch), labels.split(batch), strict=True)
    return sum(int((model(some).argmax(-1) == expected).sum()) for some, expected in parts) / len(labels)
