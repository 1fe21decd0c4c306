"""One call of an attention as whoever watches it is told: what went into the kernel, and what came out.

An attention whose `watch` is set calls it after its kernel, which runs as it always does. What the kernel keeps to
itself, scores and weights, is computed here from the same queries and keys when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from headway import ops
from headway.nn.beam_cache import apart
from headway.ops import Bias, Mask, Offset
from headway.ops.mask_structure import MarkedTokens

Kind = Literal["self", "cross"]
Index = Tensor | None  # which heads or queries; None: all


@dataclass(frozen=True, slots=True)
class Far:
    """What global tokens look with: queries (B, H, N, E) of their own, keys and values of all (B, H, S, E)."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask
    marked: MarkedTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """q (N, H, L·T, E) over k and v (N, G, S, E): L lines of a search share the keys of each of N rows, mostly 1.

    What the methods give has one row a line: B = N·L.
    """

    kind: Kind
    q: Tensor
    k: Tensor
    v: Tensor
    mixed: Tensor  # (N, H, L·T, W): what the kernel gave
    mask: Mask | None = None
    bias: Bias | None = None
    scale: float | Tensor = 1.0
    offset: Offset = 0  # the position of the first query
    lines: int = 1
    owned: Tensor | None = None  # (B, positions): which keys are a line's own; None: all, in their order
    far: Far | None = None
    known: Tensor | None = None  # weights (B, H, T, S) that there were without computing them here
    energies: Tensor | None = None  # their scores (B, H, T, S)

    @property
    def queries(self) -> int:
        """T."""
        return self.q.shape[2] // self.lines

    def weights(self, heads: Index = None, queries: Index = None) -> Tensor:
        """(B, h, t, S): the weights of these heads and queries; a line of a search sees its own keys."""
        if self.known is not None:
            return _part(self.known, heads, queries)
        return self._recomputed(ops.weights_of, heads, queries)

    def scores(self, heads: Index = None, queries: Index = None) -> Tensor:
        """(B, h, t, S): what the softmax was given, -inf where the mask forbids."""
        if self.energies is not None:
            return _part(self.energies, heads, queries)
        return self._recomputed(ops.scores_of, heads, queries)

    def position_term(self, heads: Index = None, queries: Index = None) -> Tensor | None:
        """(B or 1, h, t, S): what a bias (ALiBi, T5, Shaw) added to the scores; None without one."""
        if self.bias is None:
            return None
        device = self.q.device
        heads = torch.arange(self.q.shape[1], device=device) if heads is None else heads
        queries = torch.arange(self.queries, device=device) if queries is None else queries
        return ops.bias_of(self.bias, self.q.shape[0], heads, queries, self.k.shape[2])

    def seeking(self, heads: Index = None, queries: Index = None) -> Tensor:
        """(B, h, t, E): the queries, a global token's its own."""
        q = self.q if self.far is None else self.far.marked.scatter(self.q, self.far.q)
        return _part(self._apart(q), heads, queries)

    def found(self, heads: Index = None, queries: Index = None) -> Tensor:
        """(B, h, t, W): what the kernel gave."""
        return _part(self._apart(self.mixed), heads, queries)

    def fresh(self, x_NGSE: Tensor, heads: Index = None) -> Tensor:
        """Keys or values for each of these heads. Of a self-attention those this call added, (B, h, T, E), else all.

        What a cross-attention looks at is as it stands, (N, h, S, E).
        """
        if self.kind == "self":
            if self.owned is not None:
                index = self.owned[:, -self.queries :]
                row = torch.arange(len(index), device=index.device).div(self.lines, rounding_mode="floor")
                x_NGSE = x_NGSE.transpose(1, 2)[row.unsqueeze(1), index].transpose(1, 2)
            else:
                x_NGSE = _window(x_NGSE, self.offset, self.queries)
        share = self.q.shape[1] // x_NGSE.shape[1]
        picked = torch.arange(self.q.shape[1], device=x_NGSE.device) if heads is None else heads
        return x_NGSE[:, picked // share]

    def _recomputed(self, compute: Callable[..., Tensor], heads: Index, queries: Index) -> Tensor:
        inside = queries
        if queries is not None and self.lines > 1:
            first = torch.arange(self.lines, device=queries.device) * self.queries
            inside = (first.unsqueeze(1) + queries).flatten()
        found = compute(self.q, self.k, mask=self.mask, bias=self.bias, scale=self.scale, heads=heads, queries=inside)
        if self.far is not None:
            far = compute(self.far.q, self.far.k, mask=self.far.mask, scale=self.scale, heads=heads)
            found = _put(found, far, self.far.marked, self.queries, queries)
        found = self._apart(found)
        if self.owned is not None:
            found = found.gather(3, self.owned[:, None, None].expand(*found.shape[:3], -1))
        return found

    def _apart(self, x: Tensor) -> Tensor:
        return x if self.lines == 1 else apart(x, self.lines)


Watch = Callable[[Look], None]


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
    """`near` with the rows of global tokens replaced, of those queries that were asked for."""
    if queries is None:
        return marked.scatter(near, far)
    slot = torch.full((count,), -1, device=near.device)
    slot[queries] = torch.arange(len(queries), device=near.device)
    asked = slot[marked.positions] >= 0
    rows, slots, places = marked.rows[asked], marked.slots[asked], slot[marked.positions[asked]]
    new = far.transpose(1, 2)[rows, slots]
    return near.transpose(1, 2).index_put((rows, places), new).transpose(1, 2)
