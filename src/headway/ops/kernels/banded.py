"""Sliding-window attention in O(n·w) time and memory, in plain torch: each block of queries meets one strip of keys.

It supports any mask with a finite band (a Window, or a Window combined by & with anything) and any bias: their formulas
are evaluated on the strips instead of the full grid. Global keys are columns beside every strip, in the same softmax,
and are masked out of the strips, so that none counts twice; global queries attend to all keys in a second pass. A
dilated window is a plain one over every step-th token (a lane).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.kernels import decode, sdpa
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.reference import drop
from headway.ops.mask_structure import (
    Band,
    MarkedTokens,
    MaskStructure,
    QuerySubset,
    QuerySubsetBias,
    marked_keys,
    marked_queries,
)
from headway.ops.masks import Global

MAX_SCORES = {"cpu": 2**21, "cuda": 2**27}  # in memory at a time; on a CPU what fits its caches


def strips(x: Tensor, start: int, width: int, step: int, count: int) -> Tensor:
    """(B, G, S, E) -> (B, G, n, width, E): strip n begins at key start + n·step, padded with zeros at both ends."""
    keys = x.shape[2]
    end = start + (count - 1) * step + width
    low, high = min(max(start, 0), keys), min(max(end, 0), keys)
    x = F.pad(x[:, :, low:high], (0, 0, low - start if high > low else end - start, end - high if high > low else 0))
    return x.unfold(2, width, step).transpose(-1, -2)


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    assert inputs.mask is not None
    k, v = inputs.repeat_kv(inputs.k), inputs.repeat_kv(inputs.v)
    structure = MaskStructure.of(inputs.mask, inputs.heads)
    global_tokens, groups = structure.global_tokens, structure.bands
    parts = []
    for band, heads in groups.items():
        mine = (inputs.q, k, v) if len(groups) == 1 else tuple(x[:, heads] for x in (inputs.q, k, v))
        parts.append(_attend_band(inputs, heads, band, global_tokens, *mine))
    out = parts[0]
    if len(parts) > 1:
        order = torch.tensor([head for heads in groups.values() for head in heads], device=out.device)
        out = torch.cat(parts, 1)[:, order.argsort()]
    if global_tokens is None or not global_tokens.seeing:
        return out
    rows = marked_queries(global_tokens, inputs.queries)
    return rows.scatter_(out, attend_everywhere(inputs, rows)) if rows.count else out


def attend_everywhere(inputs: AttentionInputs, rows: MarkedTokens) -> Tensor:
    """The attention of the marked queries over all keys that the mask allows them: (B, H, N, W)."""
    assert inputs.mask is not None
    bias = None if inputs.bias is None else QuerySubsetBias(inputs.bias, rows.index)
    marked = replace(inputs, q=rows.gather(inputs.q), mask=QuerySubset(inputs.mask, rows.index), bias=bias)
    return decode.run(marked) if decode.is_faster_for(marked) else sdpa.run(marked)


def _attend_band(
    inputs: AttentionInputs,
    heads: list[int],
    band: Band,
    global_tokens: Global | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
) -> Tensor:
    """The heads that share a band, (B, h, T, W): `band.step` lanes, within each of which the window has no gaps."""
    columns = (k[:, :, :0], v[:, :, :0])
    if global_tokens is not None:
        columns = (marked_keys(global_tokens).gather(k), marked_keys(global_tokens).gather(v))
    parts = []
    for first in range(band.step):
        key = (first + band.phase) % band.step
        x = (q[:, :, first :: band.step], k[:, :, key :: band.step], v[:, :, key :: band.step])
        lane = Lane(inputs, tuple(heads), band, first, key, global_tokens, x[0].shape[2], x[1].shape[2])
        parts.append(lane.run(*x, *columns))
    if band.step == 1:
        return parts[0]
    longest = parts[0].shape[2]
    parts = [F.pad(part, (0, 0, 0, longest - part.shape[2])) for part in parts]
    return torch.stack(parts, 3).flatten(2, 3)[:, :, : inputs.queries]


class BlockRange(NamedTuple):
    """Consecutive blocks of a lane: the first, their number, and the range of keys that their strips touch."""

    block: int
    blocks: int
    low: int
    high: int
    generator: torch.Generator | None


@dataclass(frozen=True)
class Lane:
    """Queries `first`, `first` + step, … against keys `key`, `key` + step, …; T and S are the numbers in the lane."""

    inputs: AttentionInputs
    heads: tuple[int, ...]
    band: Band
    first: int
    key: int
    global_tokens: Global | None
    queries: int
    keys: int

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Bounds on key minus query, counted within the lane and clipped to the existing keys."""
        if self.band.empty:
            return 0, 0
        shift, step = self.first - self.key, self.band.step
        low, high = int(self.band.low) + shift, int(self.band.high) + shift
        return max(-(-low // step), 1 - self.queries), min(high // step, self.keys - 1)

    @cached_property
    def span(self) -> int:
        """Number of keys per query."""
        return max(self.bounds[1] - self.bounds[0] + 1, 1)

    @cached_property
    def block(self) -> int:
        """Queries per block, at most half the window: a strip is then at most 1.5 windows long."""
        return max(16, min(self.queries, self.span // 2))

    @property
    def width(self) -> int:
        """Keys per strip."""
        return self.block + self.span - 1

    def run(self, q: Tensor, k: Tensor, v: Tensor, k_columns: Tensor, v_columns: Tensor) -> Tensor:
        """(B, h, T, W), computed for a few blocks at a time."""
        if not self.queries:
            return q.new_zeros(*q.shape[:3], v.shape[3])
        tensors = (q, k, v, k_columns, v_columns)
        ranges = self._block_ranges(q)
        bias = self.inputs.bias
        wanted = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
        if wanted and len(ranges) > 1 and not (bias is not None and bias.needs_gradient):
            return _Recomputed.apply(self, ranges, *tensors)  # type: ignore[no-any-return, no-untyped-call]
        return torch.cat([self.attend_blocks(part, *self.slices(part, *tensors)) for part in ranges], 2)

    def _block_ranges(self, q: Tensor) -> list[BlockRange]:
        count = -(-self.queries // self.block)
        columns = 0 if self.global_tokens is None else marked_keys(self.global_tokens).count
        scores = q.shape[0] * q.shape[1] * self.block * (self.width + columns)
        at_once = max(1, min(count, MAX_SCORES.get(q.device.type, MAX_SCORES["cpu"]) // max(scores, 1)))
        ranges = []
        for block in range(0, count, at_once):
            blocks = min(at_once, count - block)
            low = self.bounds[0] + block * self.block
            high = low + (blocks - 1) * self.block + self.width
            low, high = (min(max(edge, 0), self.keys) for edge in (low, high))
            ranges.append(BlockRange(block, blocks, low, high, self._generator(q, many=at_once < count)))
        return ranges

    def _generator(self, q: Tensor, *, many: bool) -> torch.Generator | None:
        """The generator of dropout: one per range if there are several, so that the backward pass can redraw each."""
        inputs = self.inputs
        if not inputs.dropout or not many:
            return inputs.generator
        where = inputs.generator.device if inputs.generator is not None else "cpu"
        seed = int(torch.randint(2**62, (), generator=inputs.generator, device=where))
        return torch.Generator(q.device).manual_seed(seed)

    def slices(self, part: BlockRange, q: Tensor, k: Tensor, v: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
        """The parts of the lane's tensors that a range of blocks needs."""
        start = part.block * self.block
        keys = slice(part.low, part.high)
        return q[:, :, start : start + part.blocks * self.block], k[:, :, keys], v[:, :, keys], *columns

    def attend_blocks(
        self, part: BlockRange, q: Tensor, k: Tensor, v: Tensor, k_columns: Tensor, v_columns: Tensor
    ) -> Tensor:
        """Attention of a range of blocks, one softmax over the strip and the global columns: (B, h, t, W)."""
        inputs, queries = self.inputs, q.shape[2]
        start = self.bounds[0] + part.block * self.block - part.low
        k, v = (strips(x, start, self.width, self.block, part.blocks) for x in (k, v))
        q = F.pad(q, (0, 0, 0, part.blocks * self.block - queries)).unflatten(2, (part.blocks, self.block))
        b, h, i, j, real = self._indices(part, q.device)
        q = q * inputs.scale
        exact = torch.promote_types(q.dtype, torch.float32)
        scores, allowed = (q @ k.mT).to(exact), self._allowed(b, h, i, j) & real
        if inputs.bias is not None:
            scores = scores + inputs.bias.term(b, h, i, j).to(exact)
        if self.global_tokens is not None and k_columns.shape[2]:
            allowed = allowed & ~self.global_tokens.marks[b, j]
            marked = marked_keys(self.global_tokens)
            j = marked.index[:, None, None, None]
            global_scores = (q @ k_columns.unsqueeze(2).mT).to(exact)
            if inputs.bias is not None:
                global_scores = global_scores + inputs.bias.term(b, h, i, j).to(exact)
            global_allowed = self._allowed(b, h, i, j) & marked.real[:, None, None, None]
            shape = torch.broadcast_shapes(allowed.shape[:-1], global_allowed.shape[:-1])
            scores = torch.cat([scores, global_scores], -1)
            allowed = torch.cat([allowed.expand(*shape, -1), global_allowed.expand(*shape, -1)], -1)
        # The smallest finite number instead of -inf: a fully masked row stays finite and is zeroed at the end.
        lowest = torch.finfo(scores.dtype).min
        hidden = ~allowed
        scores = scores.masked_fill(hidden, lowest) if torch.is_grad_enabled() else scores.masked_fill_(hidden, lowest)
        weights = drop(scores.softmax(-1), replace(inputs, generator=part.generator)).to(v.dtype)
        out = weights[..., : self.width] @ v
        if weights.shape[-1] > self.width:
            out = out + weights[..., self.width :] @ v_columns.unsqueeze(2)
        out = out.masked_fill(hidden.all(-1, keepdim=True), 0.0)
        return out.flatten(2, 3)[:, :, :queries]

    def _allowed(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert self.inputs.mask is not None
        return self.inputs.mask.allowed(b, h, i, j)

    def _indices(self, part: BlockRange, device: torch.device) -> tuple[Tensor, ...]:
        """b, h, i, j in the numbering of the inputs, broadcasting to (B, h, n, block, width); and which pairs exist."""
        inputs, step = self.inputs, self.band.step
        n = part.block + torch.arange(part.blocks, device=device).view(-1, 1, 1)
        i = n * self.block + torch.arange(self.block, device=device).view(-1, 1)
        j = self.bounds[0] + n * self.block + torch.arange(self.width, device=device)
        real = (i < self.queries) & (j >= 0) & (j < self.keys)
        i = (self.first + step * i).clamp(max=inputs.queries - 1)
        j = (self.key + step * j).clamp(0, inputs.keys - 1)
        b = torch.arange(inputs.rows, device=device).view(-1, 1, 1, 1, 1)
        h = torch.tensor(self.heads, device=device).view(-1, 1, 1, 1)
        return b, h, i, j, real


class _Recomputed(torch.autograd.Function):
    """A lane whose blocks are recomputed in the backward pass, as in gradient checkpointing: no weights are saved."""

    @staticmethod
    def forward(ctx: Any, lane: Lane, ranges: list[BlockRange], *tensors: Tensor) -> Tensor:
        ctx.lane, ctx.ranges = lane, ranges
        device = tensors[0].device.type
        ctx.precision = (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        ctx.states = [part.generator.get_state() if part.generator else None for part in ranges]
        ctx.save_for_backward(*tensors)
        return torch.cat([lane.attend_blocks(part, *lane.slices(part, *tensors)) for part in ranges], 2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        lane, tensors = ctx.lane, ctx.saved_tensors
        totals = [torch.zeros_like(x) for x in tensors]
        for part, state in zip(ctx.ranges, ctx.states, strict=True):
            if state is not None and lane.inputs.dropout:
                part.generator.set_state(state)
            start = part.block * lane.block
            grad = grads[0][:, :, start : start + part.blocks * lane.block]
            device, dtype, enabled = ctx.precision
            with torch.enable_grad(), torch.autocast(device, dtype, enabled=enabled):
                leaves = [x.detach().requires_grad_() for x in lane.slices(part, *tensors)]
                out = lane.attend_blocks(part, *leaves)
            found = torch.autograd.grad(out, leaves, grad, allow_unused=True)
            for total, gradient in zip(lane.slices(part, *totals), found, strict=True):
                if gradient is not None:
                    total += gradient
        return None, None, *totals


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """Masks without a finite band are not supported."""
    if inputs.mask is None or not MaskStructure.of(inputs.mask, inputs.heads).finite:
        return "banded needs a mask with a finite reach on both sides, such as Window(256) & Causal()"
    return None
