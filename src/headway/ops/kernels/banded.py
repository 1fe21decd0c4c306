"""Window attention in O(n·w) time and memory, in plain torch: each block of queries meets only its strip of keys.

Any mask with a finite band will do (a Window, or a Window joined by & with anything), with any bias: the formulas are
evaluated on the strips instead of the full grid. Global tokens stand beside every strip, in one softmax with it, and
are taken out of the strips, so that none counts twice; their own queries then see everything, in a second pass. A
dilated window is a plain one over every step-th token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.kernels import decode as few
from headway.ops.kernels import sdpa
from headway.ops.kernels.base import Call
from headway.ops.kernels.reference import drop
from headway.ops.mask_structure import Band, Marked, Picked, PickedBias, marked_keys, marked_queries, shape
from headway.ops.masks import Global

SCORES = {"cpu": 2**21, "cuda": 2**27}  # in memory at a time; on a CPU no more than its caches hold


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
    k, v = call.per_head(call.k), call.per_head(call.v)
    form = shape(call.mask, call.heads)
    token, groups = form.apart, form.bands
    parts = []
    for band, heads in groups.items():
        mine = (call.q, k, v) if len(groups) == 1 else tuple(x[:, heads] for x in (call.q, k, v))
        parts.append(_dilated(call, heads, band, token, *mine))
    out = parts[0]
    if len(parts) > 1:
        order = torch.tensor([head for heads in groups.values() for head in heads], device=out.device)
        out = torch.cat(parts, 1)[:, order.argsort()]
    if token is None or not token.seeing:
        return out
    rows = marked_queries(token, call.queries)
    return rows.put_into(out, everywhere(call, rows)) if rows.count else out


def everywhere(call: Call, rows: Marked) -> Tensor:
    """What the marked queries see: (B, H, N, W)."""
    assert call.mask is not None
    bias = None if call.bias is None else PickedBias(call.bias, rows.index)
    theirs = replace(call, q=rows.pick(call.q), mask=Picked(call.mask, rows.index), bias=bias)
    return few.run(theirs) if few.pays(theirs) else sdpa.run(theirs)


def _dilated(call: Call, heads: list[int], band: Band, token: Global | None, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The tokens in `band.step` lanes, within each of which the window has no gaps: (B, h, T, W)."""
    columns = (k[:, :, :0], v[:, :, :0])
    if token is not None:
        columns = (marked_keys(token).pick(k), marked_keys(token).pick(v))
    parts = []
    for first in range(band.step):
        key = (first + band.phase) % band.step
        x = (q[:, :, first :: band.step], k[:, :, key :: band.step], v[:, :, key :: band.step])
        lane = Lane(call, tuple(heads), band, first, key, token, x[0].shape[2], x[1].shape[2])
        parts.append(lane.run(*x, *columns))
    if band.step == 1:
        return parts[0]
    longest = parts[0].shape[2]
    parts = [F.pad(part, (0, 0, 0, longest - part.shape[2])) for part in parts]
    return torch.stack(parts, 3).flatten(2, 3)[:, :, : call.queries]


class Piece(NamedTuple):
    """Some blocks of a lane: the first, how many, and the keys that their strips touch."""

    block: int
    blocks: int
    low: int
    high: int
    generator: torch.Generator | None


@dataclass(frozen=True)
class Lane:
    """Queries `first`, `first` + step, … against keys `key`, `key` + step, …; T and S count those of the lane."""

    call: Call
    heads: tuple[int, ...]
    band: Band
    first: int
    key: int
    token: Global | None
    queries: int
    keys: int

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Of key minus query within the lane, no wider than there are keys."""
        if self.band.empty:
            return 0, 0
        shift, step = self.first - self.key, self.band.step
        low, high = int(self.band.low) + shift, int(self.band.high) + shift
        return max(-(-low // step), 1 - self.queries), min(high // step, self.keys - 1)

    @cached_property
    def span(self) -> int:
        """Keys that a query meets."""
        return max(self.bounds[1] - self.bounds[0] + 1, 1)

    @cached_property
    def block(self) -> int:
        """Queries in a block: a strip is then at most half as long again as the window."""
        return max(16, min(self.queries, self.span // 2))

    @property
    def width(self) -> int:
        """Keys in a strip."""
        return self.block + self.span - 1

    def run(self, q: Tensor, k: Tensor, v: Tensor, k_columns: Tensor, v_columns: Tensor) -> Tensor:
        """(B, h, T, W), a few blocks at a time."""
        if not self.queries:
            return q.new_zeros(*q.shape[:3], v.shape[3])
        tensors = (q, k, v, k_columns, v_columns)
        pieces = self._pieces(q)
        bias = self.call.bias
        wanted = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
        if wanted and len(pieces) > 1 and not (bias is not None and bias.needs_gradient):
            return _Recomputed.apply(self, pieces, *tensors)  # type: ignore[no-any-return, no-untyped-call]
        return torch.cat([self.attend(piece, *self.cut(piece, *tensors)) for piece in pieces], 2)

    def _pieces(self, q: Tensor) -> list[Piece]:
        count = -(-self.queries // self.block)
        columns = 0 if self.token is None else marked_keys(self.token).count
        scores = q.shape[0] * q.shape[1] * self.block * (self.width + columns)
        together = max(1, min(count, SCORES.get(q.device.type, SCORES["cpu"]) // max(scores, 1)))
        pieces = []
        for block in range(0, count, together):
            blocks = min(together, count - block)
            low = self.bounds[0] + block * self.block
            high = low + (blocks - 1) * self.block + self.width
            low, high = (min(max(edge, 0), self.keys) for edge in (low, high))
            pieces.append(Piece(block, blocks, low, high, self._stream(q, several=together < count)))
        return pieces

    def _stream(self, q: Tensor, *, several: bool) -> torch.Generator | None:
        """Dropout's numbers: a stream a piece where there are several, so that each can be drawn again backwards."""
        call = self.call
        if not call.dropout or not several:
            return call.generator
        where = call.generator.device if call.generator is not None else "cpu"
        seed = int(torch.randint(2**62, (), generator=call.generator, device=where))
        return torch.Generator(q.device).manual_seed(seed)

    def cut(self, piece: Piece, q: Tensor, k: Tensor, v: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
        """What a piece needs of the lane."""
        start = piece.block * self.block
        keys = slice(piece.low, piece.high)
        return q[:, :, start : start + piece.blocks * self.block], k[:, :, keys], v[:, :, keys], *columns

    def attend(self, piece: Piece, q: Tensor, k: Tensor, v: Tensor, k_columns: Tensor, v_columns: Tensor) -> Tensor:
        """One softmax over the strip and the columns: (B, h, t, W)."""
        call, queries = self.call, q.shape[2]
        start = self.bounds[0] + piece.block * self.block - piece.low
        k, v = (strips(x, start, self.width, self.block, piece.blocks) for x in (k, v))
        q = F.pad(q, (0, 0, 0, piece.blocks * self.block - queries)).unflatten(2, (piece.blocks, self.block))
        b, h, i, j, real = self._indices(piece, q.device)
        q = q * call.scale
        exact = torch.promote_types(q.dtype, torch.float32)
        scores, allowed = (q @ k.mT).to(exact), self._allowed(b, h, i, j) & real
        if call.bias is not None:
            scores = scores + call.bias.term(b, h, i, j).to(exact)
        if self.token is not None and k_columns.shape[2]:
            allowed = allowed & ~self.token.marks[b, j]
            marked = marked_keys(self.token)
            j = marked.index[:, None, None, None]
            beside = (q @ k_columns.unsqueeze(2).mT).to(exact)
            if call.bias is not None:
                beside = beside + call.bias.term(b, h, i, j).to(exact)
            seen = self._allowed(b, h, i, j) & marked.real[:, None, None, None]
            shape = torch.broadcast_shapes(allowed.shape[:-1], seen.shape[:-1])
            scores = torch.cat([scores, beside], -1)
            allowed = torch.cat([allowed.expand(*shape, -1), seen.expand(*shape, -1)], -1)
        # The least number, not -inf: a row that may look nowhere stays finite here and is erased at the end.
        least = torch.finfo(scores.dtype).min
        hidden = ~allowed
        scores = scores.masked_fill(hidden, least) if torch.is_grad_enabled() else scores.masked_fill_(hidden, least)
        weights = drop(scores.softmax(-1), replace(call, generator=piece.generator)).to(v.dtype)
        out = weights[..., : self.width] @ v
        if weights.shape[-1] > self.width:
            out = out + weights[..., self.width :] @ v_columns.unsqueeze(2)
        out = out.masked_fill(hidden.all(-1, keepdim=True), 0.0)
        return out.flatten(2, 3)[:, :, :queries]

    def _allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert self.call.mask is not None
        return self.call.mask.allowed(b, h, i, j)

    def _indices(self, piece: Piece, device: torch.device) -> tuple[Tensor, ...]:
        """b, h, i, j as the call counts them, broadcasting to (B, h, n, block, width), and where i and j are real."""
        call, step = self.call, self.band.step
        n = piece.block + torch.arange(piece.blocks, device=device).view(-1, 1, 1)
        i = n * self.block + torch.arange(self.block, device=device).view(-1, 1)
        j = self.bounds[0] + n * self.block + torch.arange(self.width, device=device)
        real = (i < self.queries) & (j >= 0) & (j < self.keys)
        i = (self.first + step * i).clamp(max=call.queries - 1)
        j = (self.key + step * j).clamp(0, call.keys - 1)
        b = torch.arange(call.rows, device=device).view(-1, 1, 1, 1, 1)
        h = torch.tensor(self.heads, device=device).view(-1, 1, 1, 1)
        return b, h, i, j, real


class _Recomputed(torch.autograd.Function):
    """A lane whose pieces are computed again backwards: neither weights nor masks of the others stay in memory."""

    @staticmethod
    def forward(ctx: Any, lane: Lane, pieces: list[Piece], *tensors: Tensor) -> Tensor:
        ctx.lane, ctx.pieces = lane, pieces
        device = tensors[0].device.type
        ctx.precision = (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        ctx.states = [piece.generator.get_state() if piece.generator else None for piece in pieces]
        ctx.save_for_backward(*tensors)
        return torch.cat([lane.attend(piece, *lane.cut(piece, *tensors)) for piece in pieces], 2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        lane, tensors = ctx.lane, ctx.saved_tensors
        totals = [torch.zeros_like(x) for x in tensors]
        for piece, state in zip(ctx.pieces, ctx.states, strict=True):
            if state is not None and lane.call.dropout:
                piece.generator.set_state(state)
            start = piece.block * lane.block
            grad = grads[0][:, :, start : start + piece.blocks * lane.block]
            device, dtype, enabled = ctx.precision
            with torch.enable_grad(), torch.autocast(device, dtype, enabled=enabled):
                leaves = [x.detach().requires_grad_() for x in lane.cut(piece, *tensors)]
                out = lane.attend(piece, *leaves)
            found = torch.autograd.grad(out, leaves, grad, allow_unused=True)
            for total, part in zip(lane.cut(piece, *totals), found, strict=True):
                if part is not None:
                    total += part
        return None, None, *totals


def refuses(call: Call) -> str | None:
    """A mask without a finite band."""
    if call.mask is None or not shape(call.mask, call.heads).finite:
        return "banded needs a mask with a finite reach on both sides, such as Window(256) & Causal()"
    return None
