"""Attention rollout (Abnar and Zuidema 2020, section 3): attention weights propagated through the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.inspection.tap_names import taps
from headway.nn.patches import Grid


def rollout(weights: Sequence[Tensor], *, residual: float = 0.5) -> Tensor:
    """Weights of every layer (B, H, T, T), first layer first -> (B, T, T): the contribution of token j to token i.

    Heads are averaged; `residual` is the weight of the residual connection beside attention's (0.5 in the paper).
    """
    if not weights:
        raise ConfigError("rollout needs the weights of at least one layer")
    if not 0 <= residual < 1:
        raise ConfigError(f"residual={residual}, allowed: from 0 to below 1")
    joined: Tensor | None = None
    for each in weights:
        own = torch.eye(each.shape[-1], dtype=each.dtype, device=each.device)
        layer = (1 - residual) * each.mean(1) + residual * own
        joined = layer if joined is None else layer @ joined
    assert joined is not None
    return joined


def picture_rollout(model: nn.Module, seen: Mapping[str, Tensor], grid: Grid, *, residual: float = 0.5) -> Tensor:
    """The rollout of a vision transformer over its patches, of captured weights: (B, rows, columns), sum 1 per image.

    It starts from the class token where there is one, else from the mean over all patches.
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
