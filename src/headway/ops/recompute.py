"""What a fused kernel does not give back: scores and weights, for some heads and queries, a block of queries at a time.

Nothing here is differentiated. Memory grows with what is asked for, times the keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway.ops.attend import checked
from headway.ops.biases import Bias
from headway.ops.kernels.call import Call
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
    share = call.heads // call.k.shape[1]
    keys = call.k if heads is None and share == 1 else None
    heads = torch.arange(call.heads, device=device) if heads is None else heads.to(device)
    queries = torch.arange(call.queries, device=device) if queries is None else queries.to(device)
    keys = call.k[:, heads // share] if keys is None else keys
    out = torch.empty(call.rows, len(heads), len(queries), call.keys, dtype=exact, device=device)
    step = max(BLOCK // max(call.rows * len(heads) * call.keys, 1), 1)
    with torch.autocast(device.type, enabled=False):  # it would multiply in 16 bits
        turned = keys.to(exact).mT
        for start in range(0, len(queries), step):
            part = queries[start : start + step]
            into = out[:, :, start : start + step]
            q = call.q[:, heads[:, None], part].to(exact) * call.scale
            into.copy_(_scores(call, q @ turned, heads, part, normalise=normalise))
    return out


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
