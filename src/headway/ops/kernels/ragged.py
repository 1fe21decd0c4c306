"""One query for each row of a KV cache whose rows have unequal lengths: no row changes what another computes (CPU).

Every query has the list of the keys that it may attend to. Scores are gathered dot products and outputs gathered sums,
as in `gathered`, so that a row costs its own length and reads nothing else. A batched product would be chosen and
divided by the number of rows and by the longest of them, and with it the order in which numbers are added.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.jit import is_scripting  # type: ignore[attr-defined]

from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.gathered import MIN_SOFTMAX_WIDTH, is_available


class RaggedIndex(NamedTuple):
    """The keys of each of R = B·H queries, as indices of E-wide rows counted from the first element of the buffer."""

    table: Tensor  # (R, rows of the buffer), sparse CSR: stored zeros where a query attends
    keys: Tensor  # (P,), those of all queries one after the other
    starts: Tensor  # (R,): where the keys of each query begin in `keys`
    places: Tensor  # (P,): where the score of each key stands in a table with a line for each query
    width: int  # of that table
    of: tuple[Tensor, Tensor, Tensor]  # (P,) each: row, head and position of each key


def ragged_index(allowed_BHS: Tensor, shape: tuple[int, ...], stride: tuple[int, ...]) -> RaggedIndex:
    """The index of queries (B, H) over k of this shape (B, G, S, E) and stride; True: the query attends to the key."""
    rows, groups, _, width = shape
    heads = allowed_BHS.shape[1]
    row, head, position = allowed_BHS.nonzero().unbind(1)
    group = head.div(heads // groups, rounding_mode="floor")
    keys = (row * stride[0] + group * stride[1] + position * stride[2]).div_(width, rounding_mode="floor")
    counts = allowed_BHS.sum(-1).flatten()
    ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    span = 1 + sum((size - 1) * each for size, each in zip(shape[:3], stride[:3], strict=True)) // width
    zeros = torch.zeros(len(keys), dtype=torch.float32)
    table = torch.sparse_csr_tensor(ends, keys, zeros, (rows * heads, span), check_invariants=False)
    longest = max(int(counts.max()), MIN_SOFTMAX_WIDTH)
    query = row * heads + head
    within = torch.arange(len(keys)) - ends[query]
    return RaggedIndex(table, keys, ends[:-1], query * longest + within, longest, (row, head, position))


def ragged_attention(
    q_RE: Tensor, k: Tensor, v: Tensor, index: RaggedIndex, bias_P: Tensor | None, scale: float
) -> Tensor:
    """(R, W): the attention of R queries over k and v (B, G, S, E); `bias_P` is added to the score of each key."""
    size, stride = [index.table.size(1), k.size(3)], [k.size(3), 1]
    k_t = k.as_strided(size, stride).t()
    if is_scripting():  # TorchScript does not know the other name, which in eager mode is half as expensive
        products = torch.ops.aten.sparse_sampled_addmm(index.table, q_RE, k_t, beta=0.0, alpha=scale)
    else:
        products = torch.sparse.sampled_addmm(index.table, q_RE, k_t, beta=0.0, alpha=scale)
    scores: Tensor = products.values()
    if bias_P is not None:
        scores = scores + bias_P
    lines = torch.full([q_RE.size(0) * index.width], float("-inf"), dtype=scores.dtype)
    lines.index_copy_(0, index.places, scores)
    weights = lines.view(-1, index.width).softmax(-1).view(-1).index_select(0, index.places)
    return torch.embedding_bag(v.as_strided(size, stride), index.keys, index.starts, False, 0, False, weights)[0]


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, 1, W)."""
    q, k, v, mask = inputs.q, inputs.k, inputs.v, inputs.mask
    rows, heads, _, width = q.shape
    assert mask is not None
    shape, stride = tuple(k.shape), k.stride()

    def make() -> RaggedIndex:
        allowed = mask.dense(1, inputs.keys, k.device).expand(rows, heads, 1, inputs.keys)
        return ragged_index(allowed.squeeze(2), shape, stride)

    index, bias_P = mask.once(("ragged", heads, shape, stride), make), None
    if inputs.bias is not None:
        row, head, position = index.of
        bias = inputs.bias.dense(rows, heads, 1, inputs.keys, k.device).expand(rows, heads, 1, inputs.keys)
        bias_P = bias[row, head, 0, position]
    mixed = ragged_attention(q.reshape(rows * heads, width), k, v, index, bias_P, inputs.scale)
    return mixed.view(rows, heads, 1, width)


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """One query for each row, in float32 on a CPU, with a mask and without gradients."""
    k, v = inputs.k, inputs.v
    if inputs.queries != 1 or inputs.mask is None:
        return "ragged supports one query for each row, under a mask"
    if not k.is_cpu or k.dtype != torch.float32 or inputs.dropout or inputs.needs_gradient:
        return "ragged supports float32 on a CPU, without dropout and gradients"
    whole = k.stride() == v.stride() and k.stride(3) == 1 and not any(n % k.shape[3] for n in k.stride()[:3])
    if k.shape != v.shape or not whole or not is_available():
        return "ragged needs keys and values of one shape and layout, and torch's sparse products"
    return None
