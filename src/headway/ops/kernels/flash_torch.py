"""FlashAttention in plain torch, written to be read: no T × S matrix is ever in memory (Dao et al. 2022; 2023).

Forward (Dao et al. 2023, algorithm 1): a tile of queries meets one tile of keys after the other, and the softmax is
computed online. With m the largest score so far, l the sum of e^(S - m) and O the weighted sum of values,

    S  = scale·Q·Kᵀ + bias,  -inf where masked
    m' = max(m, rowmax S),   P = e^(S - m')
    l' = e^(m - m')·l + rowsum P,   O' = e^(m - m')·O + P·V

The output is O/l, and only L = m + ln l, the log of the softmax's denominator, is saved with it.

Backward (Dao et al. 2022, appendix B.2 and algorithm 4): the weights are recomputed, P = e^(S - L), and

    dV = Pᵀ·dO
    dP = dO·Vᵀ
    dS = P ∘ (dP - D),  D = rowsum(dO ∘ O)
    dQ = scale·dS·K,  dK = scale·dSᵀ·Q

The gradient of a softmax is dS = P ∘ (dP - rowsum(P ∘ dP)), and

    rowsum(P ∘ dP) = rowsum(P ∘ (dO·Vᵀ)) = rowsum(dO ∘ (P·V)) = rowsum(dO ∘ O) = D

is one number per query that needs no pass over the keys. L is an output with a gradient of its own (to combine
attention over two sets of keys): since ∂L/∂S = P, its gradient dL adds P·dL to dS, which is to subtract dL from D.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.ops.kernels.base import AttentionInputs
from headway.ops.masks import index_grid


class TileSize(NamedTuple):
    """Queries and keys that are in fast memory (SRAM) at a time."""

    queries: int = 64
    keys: int = 64


def run(inputs: AttentionInputs, tile: TileSize | None = None) -> Tensor:
    """(B, H, T, W)."""
    return attend_with_lse(inputs, tile)[0]


def attend_with_lse(inputs: AttentionInputs, tile: TileSize | None = None) -> tuple[Tensor, Tensor]:
    """(B, H, T, W) and L (B, H, T), -inf for a query without an allowed key; both are differentiable."""
    held = () if inputs.bias is None else inputs.bias.tensors
    tensors = (inputs.q, inputs.k, inputs.v, *held)
    found: tuple[Tensor, Tensor] = _FlashAttention.apply(inputs, tile or TileSize(), *tensors)  # type: ignore[no-untyped-call]
    return found


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """Dropout is not supported."""
    return "tiled does not support dropout; use kernel='reference' or dropout=0" if inputs.dropout else None


def read(x: Tensor, span: slice) -> Tensor:
    """Load tokens `span` of (B, H, T, …) into fast memory, in at least float32."""
    return x[:, :, span].to(torch.promote_types(x.dtype, torch.float32))


def write(x: Tensor, span: slice, value: Tensor) -> None:
    """Store tokens `span` of (B, H, T, …) to main memory (HBM)."""
    x[:, :, span] = value.to(x.dtype)


def spans(length: int, step: int) -> Iterator[slice]:
    """0 … length in steps; the last one may be shorter."""
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def _indices(inputs: AttentionInputs, i: slice, j: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    b, h, row, column = index_grid(inputs.rows, inputs.heads, i.stop - i.start, j.stop - j.start, inputs.q.device)
    return b, h, row + i.start, column + j.start


def allowed_in_tile(inputs: AttentionInputs, i: slice, j: slice) -> Tensor | None:
    """The mask of a tile; None if nothing in it is allowed, so that the tile is skipped."""
    if inputs.mask is None:
        return torch.ones(1, dtype=torch.bool, device=inputs.q.device)
    allowed = inputs.mask.allowed(*_indices(inputs, i, j))
    return allowed if allowed.any() else None


def _scores(inputs: AttentionInputs, q: Tensor, k: Tensor, allowed: Tensor, i: slice, j: slice) -> Tensor:
    """S = scale·Q·Kᵀ + bias, -inf where masked."""
    scores = inputs.scale * q @ inputs.repeat_kv(k).mT
    if inputs.bias is not None:
        scores = scores + inputs.bias.term(*_indices(inputs, i, j)).to(scores.dtype)
    return scores.masked_fill(~allowed, float("-inf"))


def _finite(row_max: Tensor) -> Tensor:
    """0 for -inf: a query without an allowed key so far must not compute -inf - -inf."""
    return row_max.masked_fill(row_max == float("-inf"), 0.0)


def forward(inputs: AttentionInputs, tile: TileSize) -> tuple[Tensor, Tensor]:
    """The output and L."""
    exact = torch.promote_types(inputs.q.dtype, torch.float32)
    out = inputs.v.new_empty(*inputs.q.shape[:3], inputs.v.shape[-1])
    lse = inputs.q.new_empty(inputs.q.shape[:3], dtype=exact)
    for i in spans(inputs.queries, tile.queries):
        q = read(inputs.q, i)
        row_max = q.new_full((*q.shape[:3], 1), float("-inf"))  # m
        row_sum, mixed = torch.zeros_like(row_max), q.new_zeros(*q.shape[:3], out.shape[-1])  # l and O
        for j in spans(inputs.keys, tile.keys):
            allowed = allowed_in_tile(inputs, i, j)
            if allowed is None:
                continue
            k, v = read(inputs.k, j), read(inputs.v, j)
            scores = _scores(inputs, q, k, allowed, i, j)
            new_max = torch.maximum(row_max, scores.amax(-1, keepdim=True))
            powers, rescale = (scores - _finite(new_max)).exp(), (row_max - _finite(new_max)).exp()
            row_sum = rescale * row_sum + powers.sum(-1, keepdim=True)
            mixed = rescale * mixed + powers @ inputs.repeat_kv(v)
            row_max = new_max
        row_sum = row_sum.masked_fill(row_sum == 0, 1.0)  # no allowed key: the output is 0/1, L = -inf
        write(out, i, mixed / row_sum)
        write(lse, i, (row_max + row_sum.log()).squeeze(-1))
    return out, lse


class _RowStatistics(NamedTuple):
    """What the backward pass needs of each query besides the inputs."""

    grad: Tensor  # dO (B, H, T, W)
    lse: Tensor  # L (B, H, T)
    delta: Tensor  # D - dL (B, H, T)


def _recompute(
    inputs: AttentionInputs, tensors: tuple[Tensor, ...], allowed: Tensor, i: slice, j: slice
) -> tuple[Tensor, Tensor]:
    """P = e^(S - L) of a tile, and dS = P ∘ (dO·Vᵀ - D)."""
    q, k, v, grad, lse, delta = tensors
    scores = _scores(inputs, q, k, allowed, i, j)
    weights = (scores - _finite(lse).unsqueeze(-1)).exp()
    return weights, weights * (grad @ inputs.repeat_kv(v).mT - delta.unsqueeze(-1))


def backward_keys(
    inputs: AttentionInputs, rows: _RowStatistics, tile: TileSize, held: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """dK and dV, and the gradients of the bias's tensors."""
    dk, dv = torch.empty_like(inputs.k), torch.empty_like(inputs.v)
    bias_grads = [torch.zeros_like(x) for x in held]
    for j in spans(inputs.keys, tile.keys):
        k, v = read(inputs.k, j), read(inputs.v, j)
        dk_tile, dv_tile = torch.zeros_like(k), torch.zeros_like(v)
        for i in spans(inputs.queries, tile.queries):
            allowed = allowed_in_tile(inputs, i, j)
            if allowed is None:
                continue
            q, grad, lse, delta = (read(x, i) for x in (inputs.q, *rows))
            weights, ds = _recompute(inputs, (q, k, v, grad, lse, delta), allowed, i, j)
            dv_tile += _sum_shared_heads(weights.mT @ grad, v)
            dk_tile += _sum_shared_heads(inputs.scale * ds.mT @ q, k)
            for total, part in zip(bias_grads, _bias_gradients(inputs, held, ds, i, j), strict=True):
                total += part
        write(dk, j, dk_tile)
        write(dv, j, dv_tile)
    return dk, dv, *bias_grads


def backward_queries(inputs: AttentionInputs, rows: _RowStatistics, tile: TileSize) -> Tensor:
    """dQ."""
    dq = torch.empty_like(inputs.q)
    for i in spans(inputs.queries, tile.queries):
        q, grad, lse, delta = (read(x, i) for x in (inputs.q, *rows))
        dq_tile = torch.zeros_like(q)
        for j in spans(inputs.keys, tile.keys):
            allowed = allowed_in_tile(inputs, i, j)
            if allowed is None:
                continue
            k, v = read(inputs.k, j), read(inputs.v, j)
            _, ds = _recompute(inputs, (q, k, v, grad, lse, delta), allowed, i, j)
            dq_tile += inputs.scale * ds @ inputs.repeat_kv(k)
        write(dq, i, dq_tile)
    return dq


def _sum_shared_heads(by_head: Tensor, like: Tensor) -> Tensor:
    """(B, H, …) -> (B, G, …): the sum over the query heads that share a key/value head."""
    summed: Tensor = by_head.unflatten(1, (like.shape[1], -1)).sum(2)
    return summed


def _bias_gradients(
    inputs: AttentionInputs, held: tuple[Tensor, ...], ds: Tensor, i: slice, j: slice
) -> tuple[Tensor, ...]:
    """A tile's contribution to the gradients of the bias's tensors: its formula is differentiated by autograd."""
    if not held:
        return ()
    assert inputs.bias is not None
    with torch.enable_grad():
        term = inputs.bias.term(*_indices(inputs, i, j))
    return torch.autograd.grad(term, held, ds.sum_to_size(term.shape).to(term.dtype), materialize_grads=True)


class _FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: AttentionInputs, tile: TileSize, q: Tensor, k: Tensor, v: Tensor, *held: Tensor
    ) -> Any:
        ctx.inputs, ctx.tile, ctx.held = inputs, tile, tuple(x for x in held if x.requires_grad)
        ctx.wanted = [x.requires_grad for x in held]
        out, lse = forward(inputs, tile)
        ctx.save_for_backward(out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad, grad_lse), (out, lse) = grads, ctx.saved_tensors
        inputs, tile = ctx.inputs, ctx.tile
        exact = lse.dtype
        delta = (grad.to(exact) * out.to(exact)).sum(-1) - grad_lse  # D - dL
        rows = _RowStatistics(grad, lse, delta)
        dk, dv, *bias_grads = backward_keys(inputs, rows, tile, ctx.held)
        given = iter(bias_grads)
        of_bias = (next(given) if wanted else None for wanted in ctx.wanted)
        return None, None, backward_queries(inputs, rows, tile), dk, dv, *of_bias
