"""What a head does in four figures: how sharply it looks, how far, at the token before, at what came next before."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.errors import ConfigError, ShapeError


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """A figure a head (h,), the mean over the texts of a batch and the queries of each."""

    entropy: Tensor  # nats: 0 looks at one token, ln S at all alike
    distance: Tensor  # |i - j|, weighed
    previous: Tensor  # the weight of the token before
    induction: Tensor | None  # the weight of the token after the last time this one was there; None without a period


def head_statistics(weights: Tensor, *, period: int | None = None, lengths_B: Tensor | None = None) -> HeadStatistics:
    """Of self-attention weights (B, h, T, T). With `period` the texts repeat themselves after so many tokens.

    Queries beyond `lengths_B` are padding and count for nothing.
    """
    if weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
        raise ShapeError(f"weights are {tuple(weights.shape)}, expected (B, h, T, T): all rows of a self-attention")
    size = weights.shape[2]
    if period is not None and not 1 <= period < size:
        raise ConfigError(f"period={period}, allowed for {size} tokens: 1 to {size - 1}")
    steps = torch.arange(size, device=weights.device)
    real = torch.ones(len(weights), size, dtype=torch.bool, device=weights.device)
    if lengths_B is not None:
        real = steps < lengths_B.unsqueeze(-1)
    away = (steps.unsqueeze(1) - steps).abs()
    entropy = -(weights * weights.clamp(min=torch.finfo(weights.dtype).tiny).log()).sum(-1)
    distance = (weights * away).sum(-1)
    return HeadStatistics(
        entropy=_mean(entropy, real),
        distance=_mean(distance, real),
        previous=_mean(_back(weights, 1), real[:, 1:]),
        # Query i was last there at i - period; the first that was there before stands at `period`.
        induction=None if period is None else _mean(_back(weights, period - 1)[:, :, 1:], real[:, period:]),
    )


def _back(weights: Tensor, steps: int) -> Tensor:
    """(B, h, T - steps): the weight that each query from `steps` on gives the token so many before it."""
    return weights.diagonal(-steps, 2, 3)


def _mean(figures_BhT: Tensor, real_BT: Tensor) -> Tensor:
    """(h,): over the real queries of all rows."""
    kept = real_BT.unsqueeze(1)
    return (figures_BhT * kept).sum((0, 2)) / kept.sum((0, 2)).clamp(min=1)
