"""The interface of a kernel: the checked arguments of `attend`, and what a kernel provides."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from headway._compile import constant
from headway.ops.biases import Bias
from headway.ops.masks import Mask


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """The arguments of one attention: q (B, H, T, E), k (B, G, S, E), v (B, G, S, W); G divides H."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | None
    bias: Bias | None
    scale: float
    dropout: float = 0.0
    generator: torch.Generator | None = None

    @property
    def rows(self) -> int:
        """B."""
        return self.q.shape[0]

    @property
    def heads(self) -> int:
        """H."""
        return self.q.shape[1]

    @property
    def queries(self) -> int:
        """T."""
        return self.q.shape[2]

    @property
    def keys(self) -> int:
        """S."""
        return self.k.shape[2]

    @property
    def grouped(self) -> bool:
        """Whether several query heads share one key/value head (G < H)."""
        return self.k.shape[1] != self.q.shape[1]

    @property
    def needs_gradient(self) -> bool:
        """Whether a backward pass has to reach q, k or v."""
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.q, self.k, self.v))

    def repeat_kv(self, x: Tensor) -> Tensor:
        """(B, G, …) -> (B, H, …): key/value heads repeated for the query heads that share them."""
        return x.repeat_interleave(self.heads // x.shape[1], dim=1) if self.grouped else x


@constant
def in_forward_ad() -> bool:
    """Whether forward-mode AD (torch.func.jvp) is active.

    torch silently drops the tangents at an operator without a forward-mode formula, so such kernels have to check.
    """
    return torch.autograd.forward_ad._current_level >= 0


@constant
def capability() -> int:
    """Compute capability of the current GPU times ten, 90 for Hopper. (torch 2.11 cannot compile comparing pairs.)"""
    return _capability_of(torch.cuda.current_device())


@functools.cache
def _capability_of(device: int) -> int:
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


class Kernel(NamedTuple):
    """An implementation of attention."""

    run: Callable[[AttentionInputs], Tensor]  # (B, H, T, W)
    unsupported_reason: Callable[[AttentionInputs], str | None]  # why it does not support these inputs, or None
