"""Attention rollout (Abnar and Zuidema 2020): where, through all layers, a token's vector comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.inspection.tap_names import taps
from headway.nn.patches import Grid


def rollout(weights: Sequence[Tensor], *, residual: float = 0.5) -> Tensor:
    """Weights of every layer (B, H, T, T), first layer first -> (B, T, T): how much of token j there is in token i.

    Heads count alike; `residual` is the share of a token that passes a layer by, beside what attention brings.
    """
    if not weights:
        raise ConfigError("rollout of no layers: it takes the weights of all")
    if not 0 <= residual < 1:
        raise ConfigError(f"residual={residual}, allowed: 0 up to 1, without it")
    joined: Tensor | None = None
    for each in weights:
        own = torch.eye(each.shape[-1], dtype=each.dtype, device=each.device)
        layer = (1 - residual) * each.mean(1) + residual * own
        joined = layer if joined is None else layer @ joined
    assert joined is not None
    return joined


def picture_rollout(model: nn.Module, seen: Mapping[str, Tensor], grid: Grid, *, residual: float = 0.5) -> Tensor:
    """What a vision transformer's answer comes from, of captured weights: (B, rows, columns), each picture's sum 1.

    From the class token where there is one, else from all patches alike.
    """
    names = [tap.name for tap in taps(model) if tap.kind == "weights" and tap.stack != "decoder"]
    joined = rollout([seen[name] for name in names], residual=residual)
    patches = grid[0] * grid[1]
    extra = joined.shape[-1] - patches
    if extra not in (0, 1):
        raise ConfigError(f"{joined.shape[-1]} tokens for a grid of {grid[0]} x {grid[1]} patches")
    share = joined[:, 0, 1:] if extra else joined.mean(1)
    picture: Tensor = (share / share.sum(-1, keepdim=True)).unflatten(1, grid)
    return picture
