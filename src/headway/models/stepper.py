"""What every generating model offers, recurrent or not. Greedy, sampling and beam search know nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from headway.errors import ConfigError

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Source:
    """What a conditional model reads before it writes: tokens (B, S) and, where rows are padded, their lengths (B,).

    A captioner reads images (B, C, height, width); its tokens are (B, 0).
    """

    tokens: Tensor
    lengths: Tensor | None = None
    images: Tensor | None = None

    def rows(self, some: Tensor | slice) -> Source:
        """These rows, in this order."""
        lengths, images = (None if x is None else x[some] for x in (self.lengths, self.images))
        return Source(self.tokens[some], lengths, images)

    @classmethod
    def of_images(cls, images: Tensor) -> Source:
        """Images, and no tokens."""
        return cls(torch.zeros(len(images), 0, dtype=torch.long, device=images.device), images=images)


def images_of(source: Source | None) -> Tensor:
    """The images of a source. Raises ConfigError for one without."""
    if source is None or source.images is None:
        raise ConfigError(f"a captioner needs images to start from, got {'no source' if source is None else 'tokens'}")
    return source.images


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
