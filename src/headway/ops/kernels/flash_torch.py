"""FlashAttention in plain torch, written to be read: no score ever lies in the large memory (FACTS §20).

Forwards, a tile of queries meets one tile of keys after the other. The softmax is kept up as it goes: `most` is the
largest score so far, `total` the sum of the powers relative to it, and whenever a larger score comes, what was summed
before fades by e^(old - new). Only L = most + ln total is kept. Backwards every weight is computed again,
P = e^(S - L), and since a softmax's gradient is P∘(dP - D) with D = Σ dO∘O, nothing else is needed. L has a gradient
too (for whoever joins two sets of keys): dL/dS = P, so it is taken off D.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.ops.kernels.base import Call
from headway.ops.masks import index_grid


class Tile(NamedTuple):
    """How many queries and keys fit in the small memory together."""

    queries: int = 64
    keys: int = 64


def run(call: Call, tile: Tile | None = None) -> Tensor:
    """(B, H, T, W)."""
    return attend_with_lse(call, tile)[0]


def attend_with_lse(call: Call, tile: Tile | None = None) -> tuple[Tensor, Tensor]:
    """(B, H, T, W) and L (B, H, T), -inf where a query may look nowhere; both have gradients."""
    held = () if call.bias is None else call.bias.tensors
    found: tuple[Tensor, Tensor] = _Tiled.apply(call, tile or Tile(), call.q, call.k, call.v, *held)  # type: ignore[no-untyped-call]
    return found


def refuses(call: Call) -> str | None:
    """Dropout."""
    return "tiled has no dropout; use kernel='reference' or dropout=0" if call.dropout else None


def read(x: Tensor, span: slice) -> Tensor:
    """Tokens `span` of (B, H, T, …) come into the small memory, in at least float32."""
    return x[:, :, span].to(torch.promote_types(x.dtype, torch.float32))


def write(x: Tensor, span: slice, value: Tensor) -> None:
    """Tokens `span` of (B, H, T, …) go back into the large memory."""
    x[:, :, span] = value.to(x.dtype)


def spans(length: int, step: int) -> Iterator[slice]:
    """0 … length in steps, the last one perhaps shorter."""
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def _indices(call: Call, i: slice, j: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    b, h, row, column = index_grid(call.rows, call.heads, i.stop - i.start, j.stop - j.start, call.q.device)
    return b, h, row + i.start, column + j.start


def seen(call: Call, i: slice, j: slice) -> Tensor | None:
    """Where a tile of queries may look in a tile of keys; None: nowhere, the tile is passed over."""
    if call.mask is None:
        return torch.ones(1, dtype=torch.bool, device=call.q.device)
    allowed = call.mask.allowed(*_indices(call, i, j))
    return allowed if allowed.any() else None


def _scores(call: Call, q: Tensor, k: Tensor, allowed: Tensor, i: slice, j: slice) -> Tensor:
    """scale·q·kᵀ + bias, -inf where the mask forbids."""
    scores = call.scale * q @ call.per_head(k).mT
    if call.bias is not None:
        scores = scores + call.bias.term(*_indices(call, i, j)).to(scores.dtype)
    return scores.masked_fill(~allowed, float("-inf"))


def _finite(most: Tensor) -> Tensor:
    """0 for -inf: a query that has seen nothing must not meet -inf - -inf."""
    return most.masked_fill(most == float("-inf"), 0.0)


def forward(call: Call, tile: Tile) -> tuple[Tensor, Tensor]:
    """The output and L."""
    exact = torch.promote_types(call.q.dtype, torch.float32)
    out = call.v.new_empty(*call.q.shape[:3], call.v.shape[-1])
    lse = call.q.new_empty(call.q.shape[:3], dtype=exact)
    for i in spans(call.queries, tile.queries):
        q = read(call.q, i)
        most = q.new_full((*q.shape[:3], 1), float("-inf"))
        total, mixed = torch.zeros_like(most), q.new_zeros(*q.shape[:3], out.shape[-1])
        for j in spans(call.keys, tile.keys):
            allowed = seen(call, i, j)
            if allowed is None:
                continue
            k, v = read(call.k, j), read(call.v, j)
            scores = _scores(call, q, k, allowed, i, j)
            now = torch.maximum(most, scores.amax(-1, keepdim=True))
            powers, fade = (scores - _finite(now)).exp(), (most - _finite(now)).exp()
            total = fade * total + powers.sum(-1, keepdim=True)
            mixed = fade * mixed + powers @ call.per_head(v)
            most = now
        total = total.masked_fill(total == 0, 1.0)
        write(out, i, mixed / total)
        write(lse, i, (most + total.log()).squeeze(-1))
    return out, lse


class _Lines(NamedTuple):
    """What the backward pass knows of each query beside the inputs."""

    grad: Tensor  # of the output (B, H, T, W)
    lse: Tensor  # (B, H, T)
    delta: Tensor  # D - dL (B, H, T)


def _again(call: Call, tensors: tuple[Tensor, ...], allowed: Tensor, i: slice, j: slice) -> tuple[Tensor, Tensor]:
    """The weights of a tile, computed again, and the gradient of its scores."""
    q, k, v, grad, lse, delta = tensors
    scores = _scores(call, q, k, allowed, i, j)
    weights = (scores - _finite(lse).unsqueeze(-1)).exp()
    return weights, weights * (grad @ call.per_head(v).mT - delta.unsqueeze(-1))


def backward_keys(call: Call, lines: _Lines, tile: Tile, held: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """dK and dV, and the gradients of what the bias holds."""
    dk, dv = torch.empty_like(call.k), torch.empty_like(call.v)
    parts = [torch.zeros_like(x) for x in held]
    for j in spans(call.keys, tile.keys):
        k, v = read(call.k, j), read(call.v, j)
        to_k, to_v = torch.zeros_like(k), torch.zeros_like(v)
        for i in spans(call.queries, tile.queries):
            allowed = seen(call, i, j)
            if allowed is None:
                continue
            q, grad, lse, delta = (read(x, i) for x in (call.q, *lines))
            weights, to_scores = _again(call, (q, k, v, grad, lse, delta), allowed, i, j)
            to_v += _shared(weights.mT @ grad, v)
            to_k += _shared(call.scale * to_scores.mT @ q, k)
            for part, found in zip(parts, _bias_gradients(call, held, to_scores, i, j), strict=True):
                part += found
        write(dk, j, to_k)
        write(dv, j, to_v)
    return dk, dv, *parts


def backward_queries(call: Call, lines: _Lines, tile: Tile) -> Tensor:
    """dQ."""
    dq = torch.empty_like(call.q)
    for i in spans(call.queries, tile.queries):
        q, grad, lse, delta = (read(x, i) for x in (call.q, *lines))
        to_q = torch.zeros_like(q)
        for j in spans(call.keys, tile.keys):
            allowed = seen(call, i, j)
            if allowed is None:
                continue
            k, v = read(call.k, j), read(call.v, j)
            _, to_scores = _again(call, (q, k, v, grad, lse, delta), allowed, i, j)
            to_q += call.scale * to_scores @ call.per_head(k)
        write(dq, i, to_q)
    return dq


def _shared(by_head: Tensor, like: Tensor) -> Tensor:
    """(B, H, …) -> (B, G, …): the sum over the query heads that share a key head."""
    joined: Tensor = by_head.unflatten(1, (like.shape[1], -1)).sum(2)
    return joined


def _bias_gradients(call: Call, held: tuple[Tensor, ...], to_scores: Tensor, i: slice, j: slice) -> tuple[Tensor, ...]:
    """What a tile's scores say to the tensors of the bias: its formula is asked again, with gradients."""
    if not held:
        return ()
    assert call.bias is not None
    with torch.enable_grad():
        term = call.bias.term(*_indices(call, i, j))
    return torch.autograd.grad(term, held, to_scores.sum_to_size(term.shape).to(term.dtype), materialize_grads=True)


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, tile: Tile, q: Tensor, k: Tensor, v: Tensor, *held: Tensor) -> Any:
        ctx.call, ctx.tile, ctx.held = call, tile, tuple(x for x in held if x.requires_grad)
        ctx.places = [x.requires_grad for x in held]
        out, lse = forward(call, tile)
        ctx.save_for_backward(out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad, to_lse), (out, lse) = grads, ctx.saved_tensors
        call, tile = ctx.call, ctx.tile
        exact = lse.dtype
        delta = (grad.to(exact) * out.to(exact)).sum(-1) - to_lse
        lines = _Lines(grad, lse, delta)
        dk, dv, *parts = backward_keys(call, lines, tile, ctx.held)
        given = iter(parts)
        of_bias = (next(given) if wanted else None for wanted in ctx.places)
        return None, None, backward_queries(call, lines, tile), dk, dv, *of_bias
