"""Statistics of attention heads (entropy, distance, previous token, induction), and a search for heads by link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.errors import ConfigError, ShapeError


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """One value per head (h,): the mean over all queries of the batch."""

    entropy: Tensor  # nats: 0 for all weight on one token, ln S for uniform weights
    distance: Tensor  # weighted mean of |i - j|
    previous: Tensor  # weight on the previous token
    induction: Tensor | None  # weight on the token after this token's previous occurrence; None without a period


def head_statistics(weights: Tensor, *, period: int | None = None, lengths_B: Tensor | None = None) -> HeadStatistics:
    """Statistics of self-attention weights (B, h, T, T). `period`: the texts repeat after this many tokens.

    Queries beyond `lengths_B` are padding and are ignored. The induction score is that of Olsson et al. (2022).
    """
    if weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
        raise ShapeError(f"weights are {tuple(weights.shape)}, expected (B, h, T, T): all queries of a self-attention")
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
        # The token of query i occurred last at i - period, so the induction target is i - period + 1; the first query
        # with an earlier occurrence is `period`.
        induction=None if period is None else _mean(_back(weights, period - 1)[:, :, 1:], real[:, period:]),
    )


@dataclass(frozen=True, slots=True)
class Link:
    """The weight that a head gives from one token to another."""

    site: str  # the attention: "layers.3.self"
    head: int  # among the captured heads
    weight: float


def links(seen: Mapping[str, Tensor], query: int, key: int, *, row: int = 0, count: int = 10) -> list[Link]:
    """The heads with the largest weight from a query to a key, of captured weights, best first.

    `query` indexes the captured queries, `key` the keys, `row` the batch. Raises ConfigError if no weights have them.
    """
    found: list[Link] = []
    for name, weights in seen.items():
        if name.endswith(".weights") and query < weights.shape[2] and key < weights.shape[3]:
            given = weights[row, :, query, key].tolist()
            found += [Link(name.removesuffix(".weights"), head, weight) for head, weight in enumerate(given)]
    if not found:
        raise ConfigError(f"no captured weights have a query {query} and a key {key}")
    return sorted(found, key=lambda link: -link.weight)[:count]


def _back(weights: Tensor, steps: int) -> Tensor:
    """(B, h, T - steps): the weight of each query i >= steps on key i - steps."""
    return weights.diagonal(-steps, 2, 3)


def _mean(values_BhT: Tensor, real_BT: Tensor) -> Tensor:
    """(h,): the mean over the real queries of all rows."""
    kept = real_BT.unsqueeze(1)
    return (values_BhT * kept).sum((0, 2)) / kept.sum((0, 2)).clamp(min=1)
