"""Scheduled sampling: in training too, the model is fed some of its own guesses (Bengio et al. 2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.models.stepper import EncoderInput, Stepper


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSampling:
    """Each input after the first is the gold token with probability ε, which falls during training, else a guess.

    Guesses are not differentiated through, so they are made first, without gradients, and then fed as if they were
    gold: the same loss and gradients as deciding step by step, at the price of a second pass. Departure: dropout
    draws another mask in that pass.
    """

    # how ε, the probability of the gold token, falls over the steps
    decay: Literal["linear", "exponential", "inverse-sigmoid"] = "inverse-sigmoid"
    scale: float = 1000.0  # k, in steps: 1 - t/k, exp(-t/k) or k/(k + exp(t/k))
    floor: float = 0.0  # ε never falls below
    choice: Literal["argmax", "sample"] = "argmax"  # a guess is the likeliest token or a sample
    # A guess may follow guesses, one step after the other, as in the paper; or all are made at once from the gold
    # prefix (two passes: Mihaylova and Martins 2019), which is what a transformer can afford.
    passes: Literal["steps", "two"] = "two"

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise ConfigError(f"scheduled.scale={self.scale}, allowed: above 0")
        if not 0 <= self.floor <= 1:
            raise ConfigError(f"scheduled.floor={self.floor}, allowed: 0 to 1")

    def gold_share(self, step: int) -> float:
        """ε after this many steps."""
        at = step / self.scale
        if self.decay == "linear":
            share = 1 - at
        elif self.decay == "exponential":
            share = math.exp(-at)
        else:
            share = self.scale / (self.scale + math.exp(min(at, 700.0)))  # above 700 exp overflows and ε would be NaN
        return max(share, self.floor)

    @torch.no_grad()
    def mixed(
        self, model: nn.Module, source: EncoderInput | None, gold_BT: Tensor, lengths_B: Tensor | None, *, step: int
    ) -> Tensor:
        """Inputs (B, T) with some gold tokens replaced by what the model says in their place."""
        gold = torch.rand(gold_BT.shape, device=gold_BT.device) < self.gold_share(step)
        gold[:, 0] = True  # no guess precedes it
        if self.passes == "two":
            source_lengths = None if source is None else source.lengths
            inputs = (gold_BT,) if source is None else (source.tokens, gold_BT, source_lengths, lengths_B)
            guesses = self._choose(model(*inputs)[:, :-1])
            return torch.cat([gold_BT[:, :1], torch.where(gold[:, 1:], gold_BT[:, 1:], guesses)], 1)
        stepper: Stepper[Any] = model  # type: ignore[assignment]
        state = stepper.start(source, capacity=gold_BT.shape[1])
        fed = [gold_BT[:, :1]]
        for t in range(1, gold_BT.shape[1]):
            logits, state = stepper.extend(fed[-1], state)
            fed.append(torch.where(gold[:, t : t + 1], gold_BT[:, t : t + 1], self._choose(logits)))
        return torch.cat(fed, 1)

    def _choose(self, logits_BTV: Tensor) -> Tensor:
        if self.choice == "argmax":
            return logits_BTV.argmax(-1)
        return torch.multinomial(logits_BTV.float().softmax(-1).flatten(0, 1), 1).view(logits_BTV.shape[:2])
