"""Masks that are exactly a band of keys around each query, cut off at each row's length."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.ops.masks import And, Causal, Global, Lengths, Mask, Or, Window


@dataclass(frozen=True, slots=True)
class Stripe:
    """Query i sees keys i + low … i + high (None: without end) below its row's length; `token`'s keys besides."""

    low: int | None = None
    high: int | None = None
    lengths: Tensor | None = None  # (B,)
    token: Global | None = None

    def __and__(self, other: Stripe) -> Stripe:
        lows = [x for x in (self.low, other.low) if x is not None]
        highs = [x for x in (self.high, other.high) if x is not None]
        lengths = self.lengths if other.lengths is None else other.lengths
        if self.lengths is not None and other.lengths is not None:
            lengths = self.lengths.minimum(other.lengths)
        low, high = max(lows) if lows else None, min(highs) if highs else None  # torch 2.11 compiles no `default`
        return Stripe(low, high, lengths, self.token or other.token)

    def outside(self, i: Tensor, j: Tensor) -> Tensor:
        """Does key j lie outside the band of query i?"""
        beyond = torch.zeros_like(j - i, dtype=torch.bool)
        if self.low is not None:
            beyond |= j < i + self.low
        if self.high is not None:
            beyond |= j > i + self.high
        return beyond


def stripe(mask: Mask | None) -> Stripe | str:
    """The band a mask is, or why it is none; found once for all layers that share the mask."""
    return Stripe() if mask is None else mask.once("stripe", lambda: _stripe(mask))


def _stripe(mask: Mask) -> Stripe | str:
    if isinstance(mask, Lengths):
        return Stripe(lengths=mask.lengths)
    if isinstance(mask, And):
        return _joined(mask)
    if isinstance(mask, Or):
        return _with_token(mask)
    if not isinstance(mask, Causal | Window):
        return f"{type(mask).__name__} is no band; allowed: Causal, Window, Lengths, and one Window | Global"
    if not isinstance(mask.offset, int):
        return f"{type(mask).__name__}.offset is a tensor, a band needs a number"
    if isinstance(mask, Causal):
        return Stripe(high=mask.offset)
    if mask.dilation != 1:
        return f"Window has dilation={mask.dilation}, a band has none (dilation=1); kernel='banded' has"
    return Stripe(mask.offset - mask.left, mask.offset + mask.ahead)


def _joined(mask: And) -> Stripe | str:
    whole = Stripe()
    for part in mask.parts:
        found = stripe(part)
        if isinstance(found, str):
            return found
        if found.token is not None and not all(p is part or isinstance(p, Lengths) for p in mask.parts):
            return "a band with global tokens may be joined with Lengths alone"
        whole = whole & found
    return whole


def _with_token(mask: Or) -> Stripe | str:
    tokens = [part for part in mask.parts if isinstance(part, Global)]
    bands = [stripe(part) for part in mask.parts if not isinstance(part, Global)]
    if len(tokens) != 1 or len(bands) != 1:
        return "masks joined by | are a band only as one Window | Global"
    (token,), (band,) = tokens, bands
    if isinstance(band, str):
        return band
    if band.lengths is not None or not isinstance(token.offset, int):
        return "Window | Global takes lengths outside (& Lengths), and an offset that is a number"
    return Stripe(band.low, band.high, token=token)
