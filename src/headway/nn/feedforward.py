"""The position-wise network between attentions, and its activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.nn.dropout import Dropout
from headway.nn.linear import FusedLinear

Activation = Literal["relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "swiglu"]

_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,  # slope 0.01, torch's and so the deck's
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def activation_function(name: Activation) -> Callable[[Tensor], Tensor]:
    """The function of a name; swiglu's is the one inside its gate."""
    return F.silu if name == "swiglu" else _FUNCTIONS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardConfig:
    """D -> inner -> D with an activation between; swiglu has a second, gating, up-projection."""

    inner: int
    activation: Activation = "relu"
    bias: bool = True
    dropout: float = 0.0  # after the activation; the 2017 paper has none there
    neighbours: int = 0  # on each side, joined feature by feature before: a separable convolution; encoders only

    def __post_init__(self) -> None:
        positive("inner", self.inner)
        positive("neighbours", self.neighbours, least=0)
        probability("dropout", self.dropout)
        if self.activation not in get_args(Activation):
            raise ConfigError(f"activation={self.activation!r}, allowed: {', '.join(get_args(Activation))}")


class FeedForward(nn.Module):
    """down(activation(up(x)))."""

    def __init__(self, width: int, config: FeedForwardConfig) -> None:
        super().__init__()
        self.gated = config.activation == "swiglu"
        self.function = activation_function(config.activation)
        parts = (config.inner, config.inner) if self.gated else (config.inner,)
        self.up = FusedLinear(width, parts, bias=config.bias)  # swiglu: gate, then value
        self.down = nn.Linear(config.inner, width, bias=config.bias)
        self.dropout = Dropout(config.dropout)
        self.taps = nn.Parameter(torch.empty(2 * config.neighbours + 1, width)) if config.neighbours else None
        if self.taps is not None:
            nn.init.normal_(self.taps, std=0.5 * len(self.taps) ** -0.5)

    def forward(self, x: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """(…, D) -> (…, D); with neighbours (B, T, D), of which `keep_BT` are real."""
        if self.taps is not None:
            x = x + self._near(x if keep_BT is None else x * keep_BT.unsqueeze(-1), self.taps)
        if self.gated:
            gate, x = self.up(x).chunk(2, -1)
            x = self.function(gate) * x
        elif self.function is F.relu and hasattr(self.up, "then_relu"):  # what somebody put in its place may have none
            x = self.up.then_relu(x)
        elif self.function is F.gelu and isinstance(self.up, FusedLinear) and not self.dropout.p:
            x = self.up.gelu(x)  # with dropout torch's own is as good: compiled, both are one pass
        else:
            x = self.function(self.up(x))
        x = self.down(self.dropout(x) if self.training else x)
        return x

    def _near(self, x_BTD: Tensor, taps_KD: Tensor) -> Tensor:
        """Σ_k tap_k·x_(i+k) over the neighbours on both sides and the token itself; none beyond the ends."""
        reach, count = len(taps_KD) // 2, x_BTD.shape[1]
        padded = F.pad(x_BTD, (0, 0, reach, reach))
        parts = [padded[:, k : k + count] * tap for k, tap in enumerate(taps_KD)]
        return torch.stack(parts).sum(0)
