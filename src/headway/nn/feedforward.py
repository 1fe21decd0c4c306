"""The position-wise feed-forward network, and its activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.nn.dropout import Dropout
from headway.nn.linear import FusedLinear, linear_gelu, linear_gelu_tanh, linear_relu

Activation = Literal["relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh"]

_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,  # slope 0.01, torch's default
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
# Gated activations: the function of the gate (Shazeer 2020, "GLU Variants Improve Transformer").
_GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}


def activation_function(name: Activation) -> Callable[[Tensor], Tensor]:
    """The function of this name; for a gated activation the one inside its gate."""
    return _FUNCTIONS[_GATES.get(name, name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardConfig:
    """D -> inner -> D with an activation between; swiglu and geglu have a second, gating, up-projection."""

    inner: int
    activation: Activation = "relu"
    bias: bool = True
    dropout: float = 0.0  # after the activation; the 2017 paper has none there
    neighbours: int = 0  # tokens on each side in a depthwise convolution before it; encoders only

    def __post_init__(self) -> None:
        positive("inner", self.inner)
        positive("neighbours", self.neighbours, least=0)
        probability("dropout", self.dropout)
        if self.activation not in get_args(Activation):
            raise ConfigError(f"activation={self.activation!r}, allowed: {', '.join(get_args(Activation))}")


FusedActivation = Callable[[nn.Module, Tensor], Tensor]


class FeedForward(nn.Module):
    """down(activation(up(x)))."""

    def __init__(self, width: int, config: FeedForwardConfig) -> None:
        super().__init__()
        self.gated, function = config.activation in _GATES, activation_function(config.activation)
        self.activation = partial(_gated, function) if self.gated else function
        self.fused = _fused(config)
        parts = (config.inner, config.inner) if self.gated else (config.inner,)
        self.up = FusedLinear(width, parts, bias=config.bias)  # gated: gate, then value
        self.down = nn.Linear(config.inner, width, bias=config.bias)
        self.dropout = Dropout(config.dropout)
        # Weights files have `neighbour_weights` under this key.
        self.register_parameter(
            "taps", nn.Parameter(torch.empty(2 * config.neighbours + 1, width)) if config.neighbours else None
        )
        if self.neighbour_weights is not None:
            nn.init.normal_(self.neighbour_weights, std=0.5 * len(self.neighbour_weights) ** -0.5)

    @property
    def neighbour_weights(self) -> nn.Parameter | None:
        """The kernel (K, D) of the depthwise convolution over neighbours; None without."""
        return self._parameters["taps"]

    def forward(self, x: Tensor, real_BT: Tensor | None = None) -> Tensor:
        """(…, D) -> (…, D); with neighbours (B, T, D), of which `real_BT` says what is not padding."""
        if self.neighbour_weights is not None:
            x = x + _depthwise(x if real_BT is None else x * real_BT.unsqueeze(-1), self.neighbour_weights)
        x = self.activation(self.up(x)) if self.fused is None else self.fused(self.up, x)
        x = self.down(self.dropout(x) if self.training else x)
        return x


def _fused(config: FeedForwardConfig) -> FusedActivation | None:
    """Up-projection and activation as one operation, for the activations that have one."""
    if config.activation == "relu":
        return linear_relu
    if config.dropout:  # beside it torch's own GELU is as fast: compiled, both are one pass
        return None
    return {"gelu": linear_gelu, "gelu_tanh": linear_gelu_tanh}.get(config.activation)


def _gated(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """(…, 2·inner), the gate before the value -> (…, inner)."""
    gate, value = x.chunk(2, -1)
    return function(gate) * value


def _depthwise(x_BTD: Tensor, weights_KD: Tensor) -> Tensor:
    """Σ_k weight_k·x_(i+k) over the neighbours on both sides and the token itself; zeros beyond the ends."""
    reach, count = len(weights_KD) // 2, x_BTD.shape[1]
    padded = F.pad(x_BTD, (0, 0, reach, reach))
    parts = [padded[:, k : k + count] * weight for k, weight in enumerate(weights_KD)]
    return torch.stack(parts).sum(0)
