"""Ensemble decoding: the mean of several models' probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headway.errors import ConfigError
from headway.models.stepper import EncoderInput, Stepper


class Ensemble:
    """A Stepper of Steppers: log Σ wᵢ pᵢ with weights normalised to sum 1. A single model's logits are unchanged."""

    def __init__(self, models: Sequence[Stepper[Any]], weights: Sequence[float] | None = None) -> None:
        if not models:
            raise ConfigError("an ensemble needs at least one model, got no models")
        sizes = [getattr(model, "vocab", None) for model in models]
        if len(set(sizes)) > 1:
            raise ConfigError(f"an ensemble needs one vocabulary, got sizes {', '.join(map(str, sizes))}")
        weights = [1.0] * len(models) if weights is None else list(weights)
        if len(weights) != len(models) or any(not 0 < weight < math.inf for weight in weights):
            raise ConfigError(f"weights {weights} for {len(models)} models: expected one above 0 for each")
        self.models, self.vocab = list(models), sizes[0]
        self.shares = [weight / sum(weights) for weight in weights]

    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> list[Any]:
        """The state of each model."""
        return [model.start(source, capacity=capacity) for model in self.models]

    def extend(self, tokens_BK: Tensor, state: list[Any], counts_B: Tensor | None = None) -> tuple[Tensor, list[Any]]:
        """(B, K) -> log of the weighted mean probability (B, K, V)."""
        parts = [model.extend(tokens_BK, own, counts_B) for model, own in zip(self.models, state, strict=True)]
        states = [own for _, own in parts]
        if len(parts) == 1:
            return parts[0][0], states
        logs = [logits.float().log_softmax(-1) + math.log(w) for (logits, _), w in zip(parts, self.shares, strict=True)]
        return torch.stack(logs).logsumexp(0), states

    def select(self, state: list[Any], rows_B: Tensor) -> list[Any]:
        """These rows, in this order, of every model's state."""
        return [model.select(own, rows_B) for model, own in zip(self.models, state, strict=True)]
