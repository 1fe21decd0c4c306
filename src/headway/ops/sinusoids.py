"""The sinusoidal position codes of the 2017 paper, and the two other layouts that go by the same name (FACTS §5)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from headway.errors import ShapeError

Layout = Literal["paper", "halves", "tensor2tensor"]


def sinusoids(positions: Tensor, width: int, layout: Layout = "paper", base: float = 10000.0) -> Tensor:
    """Codes (…, D), in float32, for positions (…); D must be even (ShapeError).

    "paper" interleaves sin and cos of t·base^(-2i/D); "halves" puts the same sines before the same cosines (Marian);
    "tensor2tensor" does too, with frequencies base^(-i/(D/2 - 1)) (tensor2tensor, fairseq).
    """
    if width % 2:
        raise ShapeError(f"sinusoids need an even width, got {width}")
    pair = torch.arange(width // 2, dtype=torch.float64, device=positions.device)
    exponent = pair / max(width // 2 - 1, 1) if layout == "tensor2tensor" else 2 * pair / width
    angles = positions.double().unsqueeze(-1) * base**-exponent
    waves = angles.sin(), angles.cos()
    return (torch.stack(waves, -1).flatten(-2) if layout == "paper" else torch.cat(waves, -1)).float()
