"""How well a language model predicts: loss, perplexity, bits per byte, and the entropy of unigram frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

Ids = NDArray[np.integer]


def perplexity(loss: float) -> float:
    """exp(loss), infinite on overflow."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True)
class LanguageReport:
    """The negative log-probability of a text in nats, over its tokens and, where known, its UTF-8 bytes."""

    nats: float
    tokens: int
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.tokens < 1 or (self.bytes is not None and self.bytes < 1):
            raise DataError(f"tokens={self.tokens}, bytes={self.bytes}: expected at least one of each")

    @property
    def loss(self) -> float:
        """Mean nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(loss), infinite on overflow."""
        return perplexity(self.loss)

    @property
    def bits_per_byte(self) -> float | None:
        """Comparable between tokenizers, as loss is not."""
        return None if self.bytes is None else self.nats / math.log(2) / self.bytes

    def to_json(self) -> dict[str, float | int | None]:
        """The flat object that `headway evaluate --json` prints; null for NaN, infinite and unknown values."""
        values = {"loss": self.loss, "perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}
        finite = {key: value if value is not None and math.isfinite(value) else None for key, value in values.items()}
        return {**finite, "tokens": self.tokens}


def unigram_entropy(ids: Ids, vocab: int) -> float:
    """Nats per token of the best model that knows the token frequencies of this text and no context."""
    counts = np.bincount(_checked(ids, vocab, "ids"))
    share = counts[counts > 0] / len(ids)
    return float(-(share * np.log(share)).sum()) + 0.0  # + 0.0: one symbol alone gives 0, not -0


def _checked(ids: Ids, vocab: int, name: str) -> NDArray[np.int64]:
    if not len(ids):
        raise DataError(f"{name} is empty; expected at least one token")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab:
        raise DataError(f"{name} runs from {low} to {high}; expected 0 to {vocab - 1}")
    return ids.astype(np.int64)
