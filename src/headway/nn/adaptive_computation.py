"""Adaptive computation time (Graves 2016) as the Universal Transformer uses it (Dehghani et al. 2019, section 2.2).

A token has a halting probability p = σ(w·x + b) at each step, computed from the block's input. It halts at the step
that brings their sum above the threshold; the weight of this step is the remainder R, so that weights sum to 1. Its
output is the mean of its states under the weights u. The published codes differ in how the mean is taken, and in what
other tokens see of a halted one: both are choices of `Adaptive`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError

Halted = Literal["copied", "transformed"]
Mixture = Literal["interpolated", "accumulated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Every token takes the same number of steps."""

    size_limits: ClassVar[dict[str, str]] = {"steps": "layers"}
    steps: int = 6  # how many steps every token takes

    def __post_init__(self) -> None:
        positive("halting.steps", self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Every token takes a number of steps of its own, up to a maximum.

    halted: "copied" keeps the state of a halted token unchanged, as the paper says; "transformed" applies the block to
    it further, as tensor2tensor does: only the token's output is frozen.
    mixture: "interpolated" is u·state + (1 - u)·before, as in tensor2tensor, where the effective weights are not u (two
    states with u = 0.5 get 0.25 and 0.5); "accumulated" is Σ u·state, as in Graves 2016.
    """

    size_limits: ClassVar[dict[str, str]] = {"steps": "layers"}
    steps: int = 12  # the cap, where what is left is spent; tensor2tensor has twice the layers
    threshold: float = 0.99  # a token halts when its summed halting probability exceeds this, between 0 and 1
    bias: float = 1.0  # where b begins: at first a token halts at its second step
    ponder: float = 0.01  # the weight of the mean of N + R in the loss
    halted: Halted = "copied"  # whether the state of a halted token stays as it is or is still transformed
    mixture: Mixture = "interpolated"  # how the states of the steps are combined into the output

    def __post_init__(self) -> None:
        positive("halting.steps", self.steps)
        if not 0.0 < self.threshold < 1.0:
            raise ConfigError(f"halting.threshold={self.threshold}, allowed: above 0 and below 1")
        if self.ponder < 0:
            raise ConfigError(f"halting.ponder={self.ponder}, allowed: 0 and above")
        if self.halted not in get_args(Halted):
            raise ConfigError(f"halting.halted={self.halted!r}, allowed: {', '.join(get_args(Halted))}")
        if self.mixture not in get_args(Mixture):
            raise ConfigError(f"halting.mixture={self.mixture!r}, allowed: {', '.join(get_args(Mixture))}")


@dataclass(frozen=True, slots=True)
class Pondering:
    """The halting state of each token (B, T). Padding takes no step."""

    running: Tensor  # whether it has not halted yet
    spent: Tensor  # Σ p of the steps before it halts
    steps: Tensor  # N
    remainder: Tensor  # R, 0 until it halts

    @classmethod
    def begin(cls, x_BTD: Tensor, real_BT: Tensor | None) -> Pondering:
        """Before the first step."""
        rows = x_BTD.shape[:2]
        running = torch.ones(rows, dtype=torch.bool, device=x_BTD.device) if real_BT is None else real_BT
        nothing = torch.zeros(rows, dtype=torch.float32, device=x_BTD.device)
        return cls(running.expand(rows), nothing, nothing.long(), nothing)

    def spend(self, p_BT: Tensor, threshold: float, *, last: bool) -> tuple[Tensor, Pondering]:
        """The weight u (B, T) of one more step, and the state after it; at the last step every token halts."""
        over = torch.ones_like(self.running) if last else self.spent + p_BT > threshold
        halts, goes_on = self.running & over, self.running & ~over
        left = torch.where(halts, 1 - self.spent, 0.0)
        spends = torch.where(goes_on, p_BT, 0.0)
        after = replace(
            self,
            running=goes_on,
            spent=self.spent + spends,
            steps=self.steps + self.running,
            remainder=self.remainder + left,
        )
        return spends + left, after

    @property
    def cost(self) -> Tensor:
        """N + R (B, T), 0 in padding. N is a count: only R has a gradient."""
        return self.steps + self.remainder


class Halting(nn.Module):
    """p = σ(w·x + b) for each token, and how outputs are combined under it."""

    def __init__(self, width: int, config: Adaptive) -> None:
        super().__init__()
        self.threshold, self.mixture = config.threshold, config.mixture
        self.copies = config.halted == "copied"
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.full((), config.bias))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T), in float32: in 16 bits rounding would decide near the threshold."""
        return (x_BTD.float() @ self.weight.float() + self.bias.float()).sigmoid()

    def mix(self, output_BTD: Tensor, state_BTD: Tensor, u_BT: Tensor) -> Tensor:
        """A token's output after one more step; with u = 0 unchanged."""
        return mix(output_BTD, state_BTD, u_BT, self.mixture)


def mix(output_BTD: Tensor, state_BTD: Tensor, u_BT: Tensor, mixture: Mixture) -> Tensor:
    """A token's output after one more step of weight u."""
    u = u_BT.unsqueeze(-1).to(state_BTD.dtype)
    before = output_BTD if mixture == "accumulated" else (1 - u) * output_BTD
    return before + u * state_BTD
