"""The training loop of labs that train a small model: no run folder, no checkpoints. It is not a lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from headway.labs.frame import progress

LAST = 0.01  # the share of the learning rate at the last step


def fit(
    parameters: Iterable[Tensor],
    loss_at: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float,
    what: str,
    clip: float | None = None,
    warm_up: int = 0,
) -> list[float]:
    """Minimise `loss_at(step)` by Adam, whose rate rises in the `warm_up` and then falls linearly -> the losses.

    `what` is shown while it trains, `clip` bounds the norm of the gradients.
    """
    trained = list(parameters)
    optimiser = torch.optim.Adam(trained, lr=learning_rate)
    losses = []
    for step in range(steps):
        falling = 1.0 - (1.0 - LAST) * (step - warm_up) / (steps - warm_up)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * min((step + 1) / max(warm_up, 1), falling, 1.0)
        loss = loss_at(step)
        optimiser.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(trained, clip)
        optimiser.step()
        losses.append(loss.item())
        progress(what, step + 1, steps)
    return losses


def fit_model(
    model: nn.Module, loss_at: Callable[[int], Tensor], *, steps: int, rate: float = 3e-3, what: str = "training"
) -> list[float]:
    """`fit` with a tenth of warm-up and gradients clipped to a norm of 1; leaves the model in evaluation mode."""
    model.train()
    warm_up = min(max(steps // 10, 1), steps - 1)
    losses = fit(model.parameters(), loss_at, steps=steps, learning_rate=rate, what=what, clip=1.0, warm_up=warm_up)
    model.eval()
    return losses


@torch.no_grad()
def share_right(model: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor, batch: int = 500) -> float:
    """The share of examples whose likeliest class (B, classes) is theirs."""
    parts = zip(inputs.split(batch), labels.split(batch), strict=True)
    return sum(int((model(some).argmax(-1) == expected).sum()) for some, expected in parts) / len(labels)
