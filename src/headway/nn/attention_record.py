"""The record of one attention call, as `on_attention` observers get it: the kernel's inputs and its output.

The kernel runs as it does without an observer. What it does not return, scores and weights, is computed here from the
same queries and keys when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from headway import ops
from headway.nn.beam_cache import split_hypotheses
from headway.ops import Bias, Mask, Offset
from headway.ops.mask_structure import MarkedTokens

Kind = Literal["self", "cross"]
Index = Tensor | None  # which heads or queries; None: all


@dataclass(frozen=True, slots=True)
class GlobalRecord:
    """Longformer's global tokens: their own queries (B, H, N, E), and keys and values (B, H, S, E) for them."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask
    marked: MarkedTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRecord:
    """q (N, H, L·T, E) over k and v (N, G, S, E): L hypotheses of a beam search share the keys of each of N rows.

    What the methods return has one row for each hypothesis: B = N·L. Outside a beam search L is 1.
    """

    kind: Kind
    q: Tensor
    k: Tensor
    v: Tensor
    output: Tensor  # (N, H, L·T, W): the kernel's
    mask: Mask | None = None
    bias: Bias | None = None
    scale: float | Tensor = 1.0
    offset: Offset = 0  # the position of the first query
    hypotheses: int = 1
    key_index: Tensor | None = None  # (B, positions): which keys are a hypothesis's own; None: all, in their order
    global_tokens: GlobalRecord | None = None
    known_weights: Tensor | None = None  # (B, H, T, S), where the attention computed them itself
    known_scores: Tensor | None = None  # (B, H, T, S), likewise

    @property
    def queries(self) -> int:
        """T."""
        return self.q.shape[2] // self.hypotheses

    def weights(self, heads: Index = None, queries: Index = None) -> Tensor:
        """(B, h, t, S): the weights of these heads and queries; a hypothesis's over its own keys."""
        if self.known_weights is not None:
            return _part(self.known_weights, heads, queries)
        return self._recomputed(ops.weights_of, heads, queries)

    def scores(self, heads: Index = None, queries: Index = None) -> Tensor:
        """(B, h, t, S): the input of the softmax, -inf where the mask forbids."""
        if self.known_scores is not None:
            return _part(self.known_scores, heads, queries)
        return self._recomputed(ops.scores_of, heads, queries)

    def position_term(self, heads: Index = None, queries: Index = None) -> Tensor | None:
        """(B or 1, h, t, S): the bias (ALiBi, T5, Shaw) that was added to the scores; None without one."""
        if self.bias is None:
            return None
        device = self.q.device
        heads = torch.arange(self.q.shape[1], device=device) if heads is None else heads
        queries = torch.arange(self.queries, device=device) if queries is None else queries
        return ops.bias_of(self.bias, self.q.shape[0], heads, queries, self.k.shape[2])

    def query_vectors(self, heads: Index = None, queries: Index = None) -> Tensor:
        """(B, h, t, E): the queries; a global token's are its own."""
        q = self.q if self.global_tokens is None else self.global_tokens.marked.scatter(self.q, self.global_tokens.q)
        return _part(self._split(q), heads, queries)

    def head_outputs(self, heads: Index = None, queries: Index = None) -> Tensor:
        """(B, h, t, W): the kernel's output."""
        return _part(self._split(self.output), heads, queries)

    def added_keys(self, x_NGSE: Tensor, heads: Index = None) -> Tensor:
        """Keys or values for each of these heads: in self-attention those that this call added, (B, h, T, E).

        In cross-attention all of them, (N, h, S, E).
        """
        if self.kind == "self":
            if self.key_index is not None:
                index = self.key_index[:, -self.queries :]
                row = torch.arange(len(index), device=index.device).div(self.hypotheses, rounding_mode="floor")
                x_NGSE = x_NGSE.transpose(1, 2)[row.unsqueeze(1), index].transpose(1, 2)
            else:
                x_NGSE = _window(x_NGSE, self.offset, self.queries)
        share = self.q.shape[1] // x_NGSE.shape[1]
        picked = torch.arange(self.q.shape[1], device=x_NGSE.device) if heads is None else heads
        return x_NGSE[:, picked // share]

    def _recomputed(self, compute: Callable[..., Tensor], heads: Index, queries: Index) -> Tensor:
        inside = queries
        if queries is not None and self.hypotheses > 1:
            first = torch.arange(self.hypotheses, device=queries.device) * self.queries
            inside = (first.unsqueeze(1) + queries).flatten()
        computed = compute(
            self.q, self.k, mask=self.mask, bias=self.bias, scale=self.scale, heads=heads, queries=inside
        )
        tokens = self.global_tokens
        if tokens is not None:
            theirs = compute(tokens.q, tokens.k, mask=tokens.mask, scale=self.scale, heads=heads)
            computed = _put(computed, theirs, tokens.marked, self.queries, queries)
        computed = self._split(computed)
        if self.key_index is not None:
            computed = computed.gather(3, self.key_index[:, None, None].expand(*computed.shape[:3], -1))
        return computed

    def _split(self, x: Tensor) -> Tensor:
        return x if self.hypotheses == 1 else split_hypotheses(x, self.hypotheses)


def _part(x_BHTE: Tensor, heads: Index, queries: Index) -> Tensor:
    x_BHTE = x_BHTE if heads is None else x_BHTE[:, heads]
    return x_BHTE if queries is None else x_BHTE[:, :, queries]


def _window(x_BGSE: Tensor, offset: Offset, count: int) -> Tensor:
    """The `count` positions from `offset` on."""
    if isinstance(offset, int):
        return x_BGSE.narrow(2, offset, count)
    steps = torch.arange(count, device=x_BGSE.device)
    index = (offset.view(-1, 1) + steps).expand(len(x_BGSE), -1)
    return x_BGSE.gather(2, index[:, None, :, None].expand(-1, x_BGSE.shape[1], -1, x_BGSE.shape[3]))


def _put(near: Tensor, far: Tensor, marked: MarkedTokens, count: int, queries: Index) -> Tensor:
    """`near` with the rows of global tokens replaced by `far`, for the queries that are wanted."""
    if queries is None:
        return marked.scatter(near, far)
    slot = torch.full((count,), -1, device=near.device)
    slot[queries] = torch.arange(len(queries), device=near.device)
    wanted = slot[marked.positions] >= 0
    rows, slots, places = marked.rows[wanted], marked.slots[wanted], slot[marked.positions[wanted]]
    new = far.transpose(1, 2)[rows, slots]
    return near.transpose(1, 2).index_put((rows, places), new).transpose(1, 2)
