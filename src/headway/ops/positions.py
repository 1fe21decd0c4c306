"""Position formulas: sinusoidal codes, rotary embedding (RoPE), and the slopes of ALiBi."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from headway.errors import ShapeError

SinusoidLayout = Literal["paper", "halves", "tensor2tensor"]
RotaryLayout = Literal["interleaved", "halves"]


def sinusoids(positions: Tensor, width: int, layout: SinusoidLayout = "paper", base: float = 10000.0) -> Tensor:
    """Sinusoidal codes (…, D), in float32, for positions (…). Raises ShapeError if D is odd.

    "paper" interleaves sin and cos of t·base^(-2i/D) (Vaswani et al. 2017, section 3.5). Two other layouts go by the
    same name: "halves" puts all sines before all cosines (Marian); "tensor2tensor" does too, with the frequencies
    base^(-i/(D/2 - 1)) (tensor2tensor, fairseq).
    """
    if width % 2:
        raise ShapeError(f"sinusoids need an even width, got {width}")
    pair = torch.arange(width // 2, dtype=torch.float64, device=positions.device)
    exponent = pair / max(width // 2 - 1, 1) if layout == "tensor2tensor" else 2 * pair / width
    angles = positions.double().unsqueeze(-1) * base**-exponent
    waves = angles.sin(), angles.cos()
    return (torch.stack(waves, -1).flatten(-2) if layout == "paper" else torch.cat(waves, -1)).float()


def rotary_angles(positions: Tensor, width: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Cosines and sines (…, E/2), in float32, for positions (…): pair i turns by t·base^(-2i/E).

    Su et al. 2021 (RoFormer), section 3.2.2.
    """
    rates = base ** (-torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) / width)
    angles = positions.float().unsqueeze(-1) * rates
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: RotaryLayout) -> Tensor:
    """Rotate the feature pairs of x (B, H, T, E) by angles (T, E/2) or (B, T, E/2).

    "interleaved" pairs features (2i, 2i+1), as RoFormer and GPT-J do; "halves" pairs (i, i + E/2), as LLaMA does.
    """
    if cos.ndim == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    exact = torch.promote_types(x.dtype, torch.float32)  # 16 bits cannot represent the angles of distant positions
    cos, sin = cos.to(exact), sin.to(exact)
    a, b = x.to(exact).unflatten(-1, (-1, 2)).unbind(-1) if layout == "interleaved" else x.to(exact).chunk(2, -1)
    turned = a * cos - b * sin, a * sin + b * cos
    return (torch.stack(turned, -1).flatten(-2) if layout == "interleaved" else torch.cat(turned, -1)).to(x.dtype)


def alibi_slopes(heads: int) -> Tensor:
    """(H,): the slopes of ALiBi (Press et al. 2022, section 3), 2^(-8h/H) for h = 1 … H if H is a power of two.

    Otherwise, as in the authors' code, those of the power of two below, then every other one of the next power.
    """

    def geometric(n: int) -> list[float]:
        return [2.0 ** (-8.0 * h / n) for h in range(1, n + 1)]

    power = 2 ** math.floor(math.log2(heads))
    slopes = geometric(power) + geometric(2 * power)[0::2][: heads - power]
    return torch.tensor(slopes)
