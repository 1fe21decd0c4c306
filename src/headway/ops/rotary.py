"""Rotary position embedding: pairs of features turned by an angle that grows with the position (FACTS §5)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Layout = Literal["interleaved", "halves"]


def rotary_angles(positions: Tensor, width: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Cosines and sines (…, E/2), in float32, for positions (…): pair i turns by t·base^(-2i/E)."""
    rates = base ** (-torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) / width)
    angles = positions.float().unsqueeze(-1) * rates
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """Turn the pairs of x (B, H, T, E) by angles (T, E/2) or (B, T, E/2).

    "interleaved" pairs features (2i, 2i+1), as RoFormer and GPT-J do; "halves" pairs (i, i + E/2), as LLaMA does.
    """
    if cos.ndim == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    exact = torch.promote_types(x.dtype, torch.float32)  # angles lose their meaning in 16 bits
    cos, sin = cos.to(exact), sin.to(exact)
    a, b = x.to(exact).unflatten(-1, (-1, 2)).unbind(-1) if layout == "interleaved" else x.to(exact).chunk(2, -1)
    turned = a * cos - b * sin, a * sin + b * cos
    return (torch.stack(turned, -1).flatten(-2) if layout == "interleaved" else torch.cat(turned, -1)).to(x.dtype)
