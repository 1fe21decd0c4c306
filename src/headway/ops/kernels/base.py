"""What a kernel is asked to do: the arguments of `attend` after the checks at its door."""

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
class Call:
    """One attention: q (B, H, T, E), k (B, G, S, E), v (B, G, S, W); G divides H; scale is a number."""

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
        """Do several query heads share one key/value head?"""
        return self.k.shape[1] != self.q.shape[1]

    @property
    def needs_gradient(self) -> bool:
        """Will somebody ask for a backward pass?"""
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.q, self.k, self.v))

    def per_head(self, x: Tensor) -> Tensor:
        """(B, G, …) -> (B, H, …): key/value heads repeated for the query heads that share them."""
        return x.repeat_interleave(self.heads // x.shape[1], dim=1) if self.grouped else x


@constant
def derives_forwards() -> bool:
    """Are derivatives taken forwards (torch.func.jvp)? torch lets an operator without them pass, and gives none."""
    return torch.autograd.forward_ad._current_level >= 0


@constant
def capability() -> int:
    """The generation of the GPU, ten times: 90 is Hopper. A number, since torch 2.11 cannot compile comparing pairs."""
    return _generation(torch.cuda.current_device())


@functools.cache
def _generation(device: int) -> int:
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


class Kernel(NamedTuple):
    """A way to compute attention."""

    run: Callable[[Call], Tensor]  # (B, H, T, W)
    refuses: Callable[[Call], str | None]  # why it cannot do this call, or None
