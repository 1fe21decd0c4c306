"""What every generating model offers, recurrent or not. Greedy, sampling and beam search know nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Source:
    """What a conditional model reads before it writes: tokens (B, S) and, where rows are padded, their lengths (B,)."""

    tokens: Tensor
    lengths: Tensor | None = None


class Stepper(Protocol[State]):
    """Generation in three verbs. A state is a handle: `extend` and `select` spend the one they are given."""

    def start(self, source: Source | None = None, *, capacity: int = 64) -> State:
        """Read the source (None for a language model); `capacity` tokens fit before a buffer grows."""
        ...

    def extend(self, tokens_BK: Tensor, state: State, counts_B: Tensor | None = None) -> tuple[Tensor, State]:
        """Append K tokens to each row -> logits (B, K, V) for what follows each of them; a step is K = 1.

        Where rows differ (prompts of unequal length, padded on the right), `counts_B` says how many of the K are real.
        """
        ...

    def select(self, state: State, rows_B: Tensor) -> State:
        """Keep these rows, in this order, repeated or dropped: what a beam does."""
        ...
