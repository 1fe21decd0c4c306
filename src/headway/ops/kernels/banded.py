"""Window attention in O(n·w) time and memory, in plain torch: each block of queries meets only its strip of keys.

Any mask whose reach is finite will do (a Window, or a Window joined by & with anything), with any bias: the formulas
are evaluated on the strips instead of the full grid.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.kernels.call import Call
from headway.ops.kernels.reference import drop, masked_softmax


def strips(x: Tensor, start: int, width: int, step: int, count: int) -> Tensor:
    """(B, G, S, E) -> (B, G, n, width, E): strip n holds keys start + n·step onwards, zeros where there is no key."""
    keys = x.shape[2]
    end = start + (count - 1) * step + width
    low, high = min(max(start, 0), keys), min(max(end, 0), keys)
    x = F.pad(x[:, :, low:high], (0, 0, low - start if high > low else end - start, end - high if high > low else 0))
    return x.unfold(2, width, step).transpose(-1, -2)


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    assert call.mask is not None
    low, high = call.mask.reach()
    low, high = int(max(low, 1 - call.queries)), int(min(high, call.keys - 1))  # no wider than there are keys
    span = max(high - low + 1, 1)
    block = max(16, min(call.queries, span))  # a strip is then at most twice the window: little waste, few blocks
    count = -(-call.queries // block)
    width = block + span - 1

    q = F.pad(call.q, (0, 0, 0, count * block - call.queries)).unflatten(2, (count, block))
    k = call.per_head(strips(call.k, low, width, block, count))
    v = call.per_head(strips(call.v, low, width, block, count))
    exact = torch.promote_types(q.dtype, torch.float32)
    scores = ((q * call.scale) @ k.mT).to(exact)

    device = q.device
    b = torch.arange(call.rows, device=device).view(-1, 1, 1, 1, 1)
    h = torch.arange(call.heads, device=device).view(-1, 1, 1, 1)
    i = torch.arange(count * block, device=device).view(count, block, 1)
    j = low + block * torch.arange(count, device=device).view(-1, 1, 1) + torch.arange(width, device=device)
    real = (i < call.queries) & (j >= 0) & (j < call.keys)
    i, j = i.clamp(max=call.queries - 1), j.clamp(0, call.keys - 1)
    if call.bias is not None:
        scores = scores + call.bias.term(b, h, i, j).to(exact)
    weights = masked_softmax(scores, call.mask.allowed(b, h, i, j) & real)
    out = drop(weights, call).to(v.dtype) @ v
    return out.flatten(2, 3)[:, :, : call.queries]


def refuses(call: Call) -> str | None:
    """A mask without a finite reach."""
    low, high = call.mask.reach() if call.mask is not None else (-math.inf, math.inf)
    if math.isinf(low) or math.isinf(high):
        return "banded needs a mask with a finite reach on both sides, such as Window(256) & Causal()"
    return None
