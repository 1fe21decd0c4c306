"""Attention of a few queries with the key and value projections absorbed into the queries and the output.

Keys and values are linear maps of one sequence x, and are never computed:

    q·(K x + k) = (Kᵀq)·x + q·k        the last term is the same for every key and cancels in the softmax
    Σ w·(V x + v) = V(Σ w·x) + v       since the weights w sum to 1

The projections then act on the queries and the weighted sums, which are few, instead of on the whole sequence (weight
absorption in multi-head latent attention is the same identity: DeepSeek-AI 2024, section 2.1.2).
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway.ops.masks import Lengths


def is_faster_for(queries: int, heads: int, width: int) -> bool:
    """Whether projecting one full-width vector per query and head is less work than two maps of the sequence."""
    return 2 * queries * heads <= width


def attend_absorbed(
    q_BHTE: Tensor,
    x_BSD: Tensor,
    keys_DD: Tensor,
    values_DD: Tensor,
    bias_D: Tensor | None,
    *,
    mask: Lengths | None,
    scale: float,
) -> Tensor:
    """(B, H, T, E): attention over keys x·keysᵀ (any bias of theirs cancels) and values x·valuesᵀ + bias."""
    rows, heads, queries, width = q_BHTE.shape
    q = torch.bmm(_by_head(q_BHTE), keys_DD.view(heads, width, -1))
    q = q.view(heads, rows, queries, -1).transpose(0, 1).reshape(rows, heads * queries, -1)
    if mask is None:
        unused = q.detach()[:, :1, :1]  # times beta=0; finite numbers, because compiled code may still read them
        scores = torch.baddbmm(unused, q, x_BSD.mT, beta=0, alpha=scale)
    else:
        scores = torch.baddbmm(_log_mask(mask, x_BSD), q, x_BSD.mT, alpha=scale)
    mixed = _by_head(torch.bmm(scores.softmax(-1), x_BSD).view(rows, heads, queries, -1))
    maps_HDE = values_DD.view(heads, width, -1).mT
    bias_H1E = None if bias_D is None else bias_D.view(heads, 1, width)
    out = torch.bmm(mixed, maps_HDE) if bias_H1E is None else torch.baddbmm(bias_H1E, mixed, maps_HDE)
    out = out.view(heads, rows, queries, width).transpose(0, 1)
    if mask is None or mask.none_empty:
        return out
    return out.masked_fill((mask.lengths < 1).view(-1, 1, 1, 1), 0.0)


def _by_head(x_BHTE: Tensor) -> Tensor:
    """(B, H, T, E) -> (H, B·T, E)."""
    return x_BHTE.transpose(0, 1).flatten(1, 2)


def _log_mask(mask: Lengths, x_BSD: Tensor) -> Tensor:
    """(B, 1, S): 0 for real keys, -inf for padding; an empty row attends to everything and is zeroed afterwards."""

    def make() -> Tensor:
        real_BS = mask.real(x_BSD.shape[1])
        seen_BS = real_BS if mask.none_empty else real_BS | (mask.lengths < 1).unsqueeze(-1)
        return seen_BS.to(x_BSD.dtype).log_().unsqueeze(1)  # log 1 and log 0

    return mask.once(("log mask", x_BSD.shape[1], x_BSD.dtype), make)
