"""A few queries, as in a decoding step: two batched products with a softmax between them.

A fused kernel saves writing T × S scores, which for one query are negligible; on a CPU it then takes twice as long.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from headway.ops.kernels import gathered
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.sdpa import dense, hides_nothing

MAX_QUERIES = 16  # above which a fused kernel is faster
LONG_KEYS = 2048  # from which this kernel is faster on a GPU too
MAX_UNBATCHED_ROWS = 8  # up to which one product per row is faster than copying the keys for a batched one


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    if gathered.is_faster_for(inputs):
        return gathered.run(inputs)
    rows, heads, queries, width = inputs.q.shape
    groups = inputs.k.shape[1]
    # Query heads that share keys are further queries of them; in a KV cache, merging rows and heads is a view.
    q = inputs.q.reshape(rows * groups, -1, width)
    unused = q.new_empty(1, 1, 1)
    scores = _batched(inputs, lambda a, b: torch.baddbmm(unused, a, b.mT, beta=0, alpha=inputs.scale), q, inputs.k)
    alive: Tensor | None = None
    if inputs.bias is not None or not hides_nothing(inputs.mask, inputs.keys):
        by_head = scores.view(rows, heads, queries, inputs.keys)
        if inputs.bias is not None:
            by_head = by_head + inputs.bias.dense(rows, heads, queries, inputs.keys, scores.device).to(scores.dtype)
        if inputs.mask is not None:
            allowed, alive = dense(inputs.mask, queries, inputs.keys, scores.device)
            by_head = by_head.masked_fill_(~allowed, float("-inf"))
        scores = by_head.view_as(scores)
    if scores.element_size() < 4:
        weights = scores.softmax(-1, dtype=torch.float32).to(inputs.v.dtype)
    else:
        weights = scores.softmax(-1)
    out = _batched(inputs, torch.bmm, weights, inputs.v).view(rows, heads, queries, -1)
    return out if alive is None else out.masked_fill(~alive, 0.0)


def _batched(
    inputs: AttentionInputs, product: Callable[[Tensor, Tensor], Tensor], left: Tensor, right_BGSE: Tensor
) -> Tensor:
    """The product of (B·G, …) with keys or values.

    Flattening rows and heads would copy keys whose heads are interleaved in memory (B, S, G, E); if these are long,
    each row is multiplied by itself.
    """
    long = inputs.keys >= LONG_KEYS and 1 < inputs.rows <= MAX_UNBATCHED_ROWS
    if long and right_BGSE.stride(0) != right_BGSE.shape[1] * right_BGSE.stride(1):
        return torch.cat(list(map(product, left.chunk(inputs.rows), right_BGSE)))
    return product(left, right_BGSE.flatten(0, 1))


def is_faster_for(inputs: AttentionInputs) -> bool:
    """On a GPU: whether few queries over many keys would leave it mostly idle with one program per head."""
    return inputs.q.is_cuda and not inputs.dropout and inputs.queries <= MAX_QUERIES and inputs.keys >= LONG_KEYS


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """Dropout is not supported."""
    return "few does not support dropout; use kernel='sdpa'" if inputs.dropout else None
