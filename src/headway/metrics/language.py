"""How well a language model predicts: loss, perplexity, bits per byte, and the n-gram models it has to beat."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.errors import ConfigError, DataError

Ids = NDArray[np.integer]


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
        """exp(loss), infinite where that is too large for a float."""
        try:
            return math.exp(self.loss)
        except OverflowError:
            return math.inf

    @property
    def bits_per_byte(self) -> float | None:
        """Comparable between tokenizers, as loss is not."""
        return None if self.bytes is None else self.nats / math.log(2) / self.bytes

    def to_json(self) -> dict[str, float | int | None]:
        """The flat object that `headway evaluate --json` prints; null where there is no finite number."""
        values = {"loss": self.loss, "perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}
        finite = {key: value if value is not None and math.isfinite(value) else None for key, value in values.items()}
        return {**finite, "tokens": self.tokens}


def unigram_entropy(ids: Ids, vocab: int) -> float:
    """Nats per token of the best guesser that knows the frequencies of this very text and no context."""
    counts = np.bincount(_checked(ids, vocab, "ids"))
    share = counts[counts > 0] / len(ids)
    return float(-(share * np.log(share)).sum()) + 0.0  # + 0.0: one symbol alone gives 0, not -0


def ngram_baseline(train_ids: Ids, val_ids: Ids, n: int, vocab: int, alpha: float = 0.5) -> float:
    """Mean nats over every validation token of an n-gram model fitted on the training text.

    Each order adds `alpha` imagined counts to each symbol on average, shared out by the order below (MacKay & Peto
    1995), down to the uniform distribution: for n = 1 this is add-alpha. The first tokens use the context they have.
    """
    if not (n >= 1 and vocab**n < 2**63):
        raise ConfigError(f"n={n} with vocab={vocab}: expected 1 <= n and vocab**n below 2**63")
    if not alpha > 0:
        raise ConfigError(f"alpha={alpha}, expected above 0: unseen symbols would have no probability")
    train, val = _checked(train_ids, vocab, "train_ids"), _checked(val_ids, vocab, "val_ids")
    probability = np.full(len(val), 1 / vocab)
    for order in range(1, min(n, len(val)) + 1):
        seen, grams = _grams(train, order, vocab), _grams(val, order, vocab)
        # A context is counted where a symbol follows it, so that its continuations add up to it.
        joint, context = _occurrences(seen, grams), _occurrences(seen // vocab, grams // vocab)
        prior = alpha * vocab
        probability[order - 1 :] = (joint + prior * probability[order - 1 :]) / (context + prior)
    return float(-np.log(probability).mean())


def _checked(ids: Ids, vocab: int, name: str) -> NDArray[np.int64]:
    if not len(ids):
        raise DataError(f"{name} is empty; expected at least one token")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab:
        raise DataError(f"{name} runs from {low} to {high}; expected 0 to {vocab - 1}")
    return ids.astype(np.int64)


def _grams(ids: NDArray[np.int64], order: int, vocab: int) -> NDArray[np.int64]:
    """(T,) -> (T - order + 1,): each run of `order` ids as one number in base `vocab`."""
    length = max(0, len(ids) - order + 1)
    grams = np.zeros(length, dtype=np.int64)
    for shift in range(order):
        grams = grams * vocab + ids[shift : shift + length]
    return grams


def _occurrences(seen: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each wanted number was seen; sorted search, because a table of vocab**n would not fit."""
    ordered = np.sort(seen)
    return np.searchsorted(ordered, wanted, side="right") - np.searchsorted(ordered, wanted, side="left")
