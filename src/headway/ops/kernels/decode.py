"""A few queries, as a decoder's step has them: two batched products and a softmax between.

A fused kernel saves writing T × S scores, which for one query are nothing; on a CPU it then costs twice what it does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from headway.ops.kernels import gathered as listed
from headway.ops.kernels.base import Call
from headway.ops.kernels.sdpa import dense, hides_nothing

MOST = 16  # queries, beyond which fusing pays
LONG = 2048  # keys, beyond which it does not pay on a GPU either
ROWS = 8  # beyond which a product each costs more than a copy for one of all


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    if listed.pays(call):
        return listed.run(call)
    rows, heads, queries, width = call.q.shape
    groups = call.k.shape[1]
    # Heads that share keys are further queries of them; a cache's rows and heads lie so that joining them is a view.
    q = call.q.reshape(rows * groups, -1, width)
    none = q.new_empty(1, 1, 1)
    scores = _joined(call, lambda a, b: torch.baddbmm(none, a, b.mT, beta=0, alpha=call.scale), q, call.k)
    alive: Tensor | None = None
    if call.bias is not None or not hides_nothing(call.mask, call.keys):
        apart = scores.view(rows, heads, queries, call.keys)
        if call.bias is not None:
            apart = apart + call.bias.dense(rows, heads, queries, call.keys, scores.device).to(scores.dtype)
        if call.mask is not None:
            allowed, alive = dense(call.mask, queries, call.keys, scores.device)
            apart = apart.masked_fill_(~allowed, float("-inf"))
        scores = apart.view_as(scores)
    if scores.element_size() < 4:
        weights = scores.softmax(-1, dtype=torch.float32).to(call.v.dtype)
    else:
        weights = scores.softmax(-1)
    out = _joined(call, torch.bmm, weights, call.v).view(rows, heads, queries, -1)
    return out if alive is None else out.masked_fill(~alive, 0.0)


def _joined(call: Call, product: Callable[[Tensor, Tensor], Tensor], few: Tensor, many_BGSE: Tensor) -> Tensor:
    """The product of (B·G, …) with keys or values; long ones whose heads lie side by side, row by row: no copies."""
    long = call.keys >= LONG and 1 < call.rows <= ROWS
    if long and many_BGSE.stride(0) != many_BGSE.shape[1] * many_BGSE.stride(1):
        return torch.cat(list(map(product, few.chunk(call.rows), many_BGSE)))
    return product(few, many_BGSE.flatten(0, 1))


def pays(call: Call) -> bool:
    """On a GPU: are these few queries over so many keys that a fused kernel, a program a head, leaves it idle?"""
    return call.q.is_cuda and not call.dropout and call.queries <= MOST and call.keys >= LONG


def refuses(call: Call) -> str | None:
    """Dropout."""
    return "few has no dropout; use kernel='sdpa'" if call.dropout else None
