"""A few queries over keys and values that are linear maps of one text, without making keys and values.

q·(K x + k) = (Kᵀq)·x + q·k, and the softmax does not feel what is the same for every key; Σ w·(V x + v) = V(Σ w·x) + v.
The maps are absorbed into the queries and the sums, which are few, in place of the text, which is long.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway.ops.masks import Lengths


def pays(queries: int, heads: int, width: int) -> bool:
    """Are so few vectors of the full width, one a query and head, less work than two maps of the whole text?"""
    return 2 * queries * heads <= width


def attend(
    q_BHTE: Tensor,
    x_BSD: Tensor,
    keys_DD: Tensor,
    values_DD: Tensor,
    bias_D: Tensor | None,
    *,
    mask: Lengths | None,
    scale: float,
) -> Tensor:
    """(B, H, T, E): what `attend` gives for keys x·keysᵀ, plus any bias, and values x·valuesᵀ + bias."""
    rows, heads, queries, width = q_BHTE.shape
    q = torch.bmm(_by_head(q_BHTE), keys_DD.view(heads, width, -1))
    q = q.view(heads, rows, queries, -1).transpose(0, 1).reshape(rows, heads * queries, -1)
    if mask is None:
        nothing = q.detach()[:, :1, :1]  # times 0; numbers there are, should a compiler read them all the same
        scores = torch.baddbmm(nothing, q, x_BSD.mT, beta=0, alpha=scale)
    else:
        scores = torch.baddbmm(_hidden(mask, x_BSD), q, x_BSD.mT, alpha=scale)
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


def _hidden(mask: Lengths, x_BSD: Tensor) -> Tensor:
    """(B, 1, S): 0, and -inf beyond a row's length; a row of length 0 looks everywhere, and is erased after."""

    def make() -> Tensor:
        real_BS = mask.real(x_BSD.shape[1])
        seen_BS = real_BS if mask.none_empty else real_BS | (mask.lengths < 1).unsqueeze(-1)
        return seen_BS.to(x_BSD.dtype).log_().unsqueeze(1)  # log 1 and log 0

    return mask.once(("hidden", x_BSD.shape[1], x_BSD.dtype), make)
