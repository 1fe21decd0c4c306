"""The training loop of labs that train: Adam, a learning rate that falls linearly to 1 %, progress; no lab itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from headway.labs.frame import progress


def fit(
    parameters: Iterable[Tensor],
    loss_at: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float,
    what: str,
    clip: float | None = None,
) -> list[float]:
    """Minimise `loss_at(step)` -> its value at each step; `what` is shown while it trains, `clip` bounds gradients."""
    trained = list(parameters)
    optimiser = torch.optim.Adam(trained, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, steps)
    losses = []
    for step in range(steps):
        loss = loss_at(step)
        optimiser.zero_grad()
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(trained, clip)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
        progress(what, step + 1, steps)
    return losses
