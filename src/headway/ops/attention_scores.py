"""What a fused kernel does not give back: scores and weights, for some heads and queries, a block of queries at a time.

Nothing here is differentiated. Memory grows with what is asked for, times the keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway.ops.attend import checked
from headway.ops.biases import Bias
from headway.ops.kernels.base import Call
from headway.ops.masks import Mask

BLOCK = 1 << 21  # scores made at once, beside those that are kept


def weights_of(
    q: Tensor,
    k: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: float | Tensor | None = None,
    heads: Tensor | None = None,
    queries: Tensor | None = None,
) -> Tensor:
    """The weights (B, h, t, S) that `attend` uses for these heads and queries (None: all), whatever its kernel.

    At least float32; a query that may look nowhere has zeros.
    """
    return _blocks(checked(q, k, k, mask, bias, scale, 0.0, None), heads, queries, normalise=True)


def scores_of(
    q: Tensor,
    k: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: float | Tensor | None = None,
    heads: Tensor | None = None,
    queries: Tensor | None = None,
) -> Tensor:
    """scale·q·kᵀ + bias (B, h, t, S) for these heads and queries, -inf where the mask forbids: the softmax's input."""
    return _blocks(checked(q, k, k, mask, bias, scale, 0.0, None), heads, queries, normalise=False)


def bias_of(bias: Bias, rows: int, heads: Tensor, queries: Tensor, keys: int) -> Tensor:
    """What a bias adds to the scores of these heads and queries: (B or 1, h, t, S)."""
    with torch.no_grad():
        return bias.term(*_grid(rows, heads, queries, keys))


def _grid(rows: int, heads: Tensor, queries: Tensor, keys: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    device = heads.device
    b, j = torch.arange(rows, device=device), torch.arange(keys, device=device)
    return b.view(-1, 1, 1, 1), heads.view(1, -1, 1, 1), queries.view(1, 1, -1, 1), j.view(1, 1, 1, -1)


@torch.no_grad()
def _blocks(call: Call, heads: Tensor | None, queries: Tensor | None, *, normalise: bool) -> Tensor:
    exact, device = torch.promote_types(call.q.dtype, torch.float32), call.q.device
    # Indexing copies: what is whole is taken as it is.
    q = call.q if queries is None else call.q[:, :, queries]
    q, k = (q, call.per_head(call.k)) if heads is None else _of_heads(q, call.k, heads)
    heads = torch.arange(call.heads, device=device) if heads is None else heads
    queries = torch.arange(call.queries, device=device) if queries is None else queries
    count = len(queries)
    step = max(BLOCK // max(call.rows * len(heads) * call.keys, 1), 1)
    with torch.autocast(device.type, enabled=False):  # it would multiply in 16 bits
        q, k = q.to(exact) * call.scale, k.to(exact).mT
        if count <= step:
            return _scores(call, q @ k, heads, queries, normalise=normalise)
        out = torch.empty(call.rows, len(heads), count, call.keys, dtype=exact, device=device)
        for start in range(0, count, step):
            part = slice(start, start + step)
            out[:, :, part] = _scores(call, q[:, :, part] @ k, heads, queries[part], normalise=normalise)
    return out


def _of_heads(q: Tensor, k: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
    """The queries of these heads, and the keys each of them looks at."""
    return q[:, heads], k[:, heads // (q.shape[1] // k.shape[1])]


def _scores(call: Call, scores: Tensor, heads: Tensor, queries: Tensor, *, normalise: bool) -> Tensor:
    grid = _grid(call.rows, heads, queries, call.keys)
    if call.bias is not None:
        scores += call.bias.term(*grid)
    if call.mask is None:
        return scores.softmax(-1) if normalise else scores
    allowed = call.mask.allowed(*grid)
    scores.masked_fill_(~allowed, float("-inf"))
    if not normalise:
        return scores
    return scores.softmax(-1).masked_fill_(~allowed.any(-1, keepdim=True), 0.0)
