"""Normalisation over a token's features (LayerNorm, RMSNorm) or over a batch of sequences (BatchNorm).

Every norm is called as `norm(x_BTD, real_BT)`; only BatchNorm uses `real_BT`, which is False in padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import not_negative, probability


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNorm:
    """(x - mean)/√(variance + eps) over the features, biased variance, then gain and shift (Ba et al. 2016)."""

    eps: float = 1e-5  # added below the root, against division by 0
    bias: bool = True  # whether there is a shift beside the gain

    def __post_init__(self) -> None:
        not_negative("norm.eps", self.eps)

    def build(self, width: int) -> FeatureLayerNorm:
        """The layer for this width."""
        return FeatureLayerNorm(width, eps=self.eps, bias=self.bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class RMSNorm:
    """x/√(mean square + eps) over the features, then gain (Zhang and Sennrich 2019)."""

    eps: float = 1e-5  # added below the root, against division by 0
    centred: bool = False  # the gain is 1 + weight, so that weights begin at 0 (Gemma)

    def __post_init__(self) -> None:
        not_negative("norm.eps", self.eps)

    def build(self, width: int) -> FeatureRMSNorm:
        """The layer for this width."""
        return CentredRMSNorm(width, eps=self.eps) if self.centred else FeatureRMSNorm(width, eps=self.eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNorm:
    """Per feature over all real positions of the batch (Ioffe and Szegedy 2015); running statistics in evaluation.

    In training a token's value depends on other rows and on later positions: encoders only.
    """

    eps: float = 1e-5  # added below the root, against division by 0
    momentum: float = 0.1  # the share of a new batch in the running statistics

    def __post_init__(self) -> None:
        not_negative("norm.eps", self.eps)
        probability("norm.momentum", self.momentum)

    def build(self, width: int) -> SequenceBatchNorm:
        """The layer for this width."""
        return SequenceBatchNorm(width, eps=self.eps, momentum=self.momentum)


FeatureNorm = LayerNorm | RMSNorm
Norm = LayerNorm | RMSNorm | BatchNorm


class FeatureLayerNorm(nn.LayerNorm):
    """torch's LayerNorm with the common signature."""

    def forward(self, x_BTD: Tensor, real_BT: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return torch.layer_norm(
            x_BTD, self.normalized_shape, self.weight, self.bias, self.eps
        )  # the same, called directly


class FeatureRMSNorm(nn.RMSNorm):
    """torch's RMSNorm with the common signature."""

    def forward(self, x_BTD: Tensor, real_BT: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return super().forward(x_BTD)


class CentredRMSNorm(FeatureRMSNorm):
    """RMSNorm whose gain is 1 + weight; computed in float32, as 16 bits would round small weights away beside 1."""

    def __init__(self, width: int, *, eps: float) -> None:
        super().__init__(width, eps=eps)
        nn.init.zeros_(self.weight)

    def forward(self, x_BTD: Tensor, real_BT: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        exact = torch.promote_types(x_BTD.dtype, torch.float32)
        gain = 1.0 + self.weight.to(exact)
        return F.rms_norm(x_BTD.to(exact), self.normalized_shape, gain, self.eps).to(x_BTD.dtype)


class SequenceBatchNorm(nn.Module):
    """BatchNorm whose statistics exclude padding."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, *, eps: float, momentum: float) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x_BTD: Tensor, real_BT: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); in training padding becomes zeros."""
        if real_BT is None or not self.training:
            return self._normalise(x_BTD.flatten(0, 1)).view_as(x_BTD)
        out = torch.zeros_like(x_BTD)
        out[real_BT] = self._normalise(x_BTD[real_BT])
        return out

    def _normalise(self, x_ND: Tensor) -> Tensor:
        return F.batch_norm(
            x_ND,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=self.training,
            momentum=self.momentum,
            eps=self.eps,
        )
