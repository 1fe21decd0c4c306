"""The slopes of ALiBi (Press et al. 2022, FACTS §5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def alibi_slopes(heads: int) -> Tensor:
    """(H,): 2^(-8h/H) for a power of two; otherwise those of the power below, then every other one of the next."""

    def geometric(n: int) -> list[float]:
        return [2.0 ** (-8.0 * h / n) for h in range(1, n + 1)]

    power = 2 ** math.floor(math.log2(heads))
    slopes = geometric(power) + geometric(2 * power)[0::2][: heads - power]
    return torch.tensor(slopes)
