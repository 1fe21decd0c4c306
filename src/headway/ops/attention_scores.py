"""Attention scores and weights for some heads and queries, recomputed from q and k.

Fused kernels do not return them. They are computed without gradients, a block of queries at a time, so that memory is
proportional to the requested heads and queries times the keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway.ops.attend import checked
from headway.ops.biases import Bias
from headway.ops.kernels.base import AttentionInputs
from headway.ops.masks import Mask

BLOCK = 1 << 21  # scores computed at a time


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
    """The weights (B, h, t, S) that `attend` uses for these heads and queries (None: all), the same for every kernel.

    In at least float32; zeros for a query without an allowed key.
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
    """scale·q·kᵀ + bias (B, h, t, S) for these heads and queries, -inf where masked: the input of the softmax."""
    return _blocks(checked(q, k, k, mask, bias, scale, 0.0, None), heads, queries, normalise=False)


def bias_of(bias: Bias, rows: int, heads: Tensor, queries: Tensor, keys: int) -> Tensor:
    """The bias term of these heads and queries: (B or 1, h, t, S)."""
    with torch.no_grad():
        return bias.term(*_grid(rows, heads, queries, keys))


def _grid(rows: int, heads: Tensor, queries: Tensor, keys: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    device = heads.device
    b, j = torch.arange(rows, device=device), torch.arange(keys, device=device)
    return b.view(-1, 1, 1, 1), heads.view(1, -1, 1, 1), queries.view(1, 1, -1, 1), j.view(1, 1, 1, -1)


@torch.no_grad()
def _blocks(inputs: AttentionInputs, heads: Tensor | None, queries: Tensor | None, *, normalise: bool) -> Tensor:
    exact, device = torch.promote_types(inputs.q.dtype, torch.float32), inputs.q.device
    # Indexing copies, so it is skipped where all heads or queries are wanted.
    q = inputs.q if queries is None else inputs.q[:, :, queries]
    q, k = (q, inputs.repeat_kv(inputs.k)) if heads is None else _of_heads(q, inputs.k, heads)
    heads = torch.arange(inputs.heads, device=device) if heads is None else heads
    queries = torch.arange(inputs.queries, device=device) if queries is None else queries
    count = len(queries)
    step = max(BLOCK // max(inputs.rows * len(heads) * inputs.keys, 1), 1)
    with torch.autocast(device.type, enabled=False):  # which would multiply in 16 bits
        q, k = q.to(exact) * inputs.scale, k.to(exact).mT
        if count <= step:
            return _scores(inputs, q @ k, heads, queries, normalise=normalise)
        out = torch.empty(inputs.rows, len(heads), count, inputs.keys, dtype=exact, device=device)
        for start in range(0, count, step):
            part = slice(start, start + step)
            out[:, :, part] = _scores(inputs, q[:, :, part] @ k, heads, queries[part], normalise=normalise)
    return out


def _of_heads(q: Tensor, k: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
    """The queries of these heads, and the keys of each."""
    return q[:, heads], k[:, heads // (q.shape[1] // k.shape[1])]


def _scores(inputs: AttentionInputs, scores: Tensor, heads: Tensor, queries: Tensor, *, normalise: bool) -> Tensor:
    grid = _grid(inputs.rows, heads, queries, inputs.keys)
    if inputs.bias is not None:
        scores += inputs.bias.term(*grid)
    if inputs.mask is None:
        return scores.softmax(-1) if normalise else scores
    allowed = inputs.mask.allowed(*grid)
    scores.masked_fill_(~allowed, float("-inf"))
    if not normalise:
        return scores
    return scores.softmax(-1).masked_fill_(~allowed.any(-1, keepdim=True), 0.0)
