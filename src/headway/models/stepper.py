"""The interface of every generating model, recurrent or not: greedy search, sampling and beam search use no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from headway.errors import ConfigError
from headway.nn.taps import Tap

if TYPE_CHECKING:
    from headway.nn.cache import KVCache
    from headway.nn.embedding import TokenEmbedding
    from headway.nn.stack import Stack

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """The source of a conditional model: tokens (B, S) and, where rows are padded, their lengths (B,).

    A captioner reads images (B, C, height, width), a transcriber frames (B, S, bands) of which `lengths` are real;
    their tokens are (B, 0).
    """

    tokens: Tensor
    lengths: Tensor | None = None
    images: Tensor | None = None
    frames: Tensor | None = None

    def rows(self, some: Tensor | slice) -> EncoderInput:
        """These rows, in this order."""
        lengths, images, frames = (None if x is None else x[some] for x in (self.lengths, self.images, self.frames))
        return EncoderInput(self.tokens[some], lengths, images, frames)

    @classmethod
    def of_images(cls, images: Tensor) -> EncoderInput:
        """Images, and no tokens."""
        return cls(torch.zeros(len(images), 0, dtype=torch.long, device=images.device), images=images)

    @classmethod
    def of_frames(cls, frames: Tensor, lengths: Tensor | None = None) -> EncoderInput:
        """Frames of sounds, and no tokens."""
        return cls(torch.zeros(len(frames), 0, dtype=torch.long, device=frames.device), lengths, frames=frames)


Source = EncoderInput  # its name in earlier versions


def images_of(source: EncoderInput | None) -> Tensor:
    """The images of a source. Raises ConfigError for one without."""
    if source is None or source.images is None:
        raise ConfigError(f"a captioner needs images to start from, got {'no source' if source is None else 'tokens'}")
    return source.images


def frames_of(source: EncoderInput | None) -> tuple[Tensor, Tensor | None]:
    """The frames of a source and their lengths. Raises ConfigError for one without."""
    if source is None or source.frames is None:
        got = "no source" if source is None else "no frames"
        raise ConfigError(f"a transcriber needs the frames of a sound to start from, got {got}")
    return source.frames, source.lengths


@dataclass(frozen=True, slots=True)
class SourceAttention:
    """Where a model's attention over its source can be read."""

    tap: Tap  # its weights: (B, H, T, S) or (B, T, S); a step may attend more than once, the last time for its word
    reversed: bool = False  # the encoder reads the source from its end, and so do the weights


def source_attention(model: object) -> SourceAttention | None:
    """A model's attention over its source; None without one, or for a model that has no such method."""
    method = getattr(model, "source_attention", None)
    attention: SourceAttention | None = None if method is None else method()
    return attention


class Stepper(Protocol[State]):
    """Generation in three methods. A state is a handle: `extend` and `select` invalidate the one they are given."""

    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> State:
        """Read the source (None for a language model); buffers have room for `capacity` tokens before they grow."""
        ...

    def extend(self, tokens_BK: Tensor, state: State, counts_B: Tensor | None = None) -> tuple[Tensor, State]:
        """Append K tokens to each row -> logits (B, K, V) for what follows each of them; a step is K = 1.

        Where rows differ (prompts of unequal length, padded on the right), `counts_B` says how many of the K are real.
        """
        ...

    def select(self, state: State, rows_B: Tensor) -> State:
        """Keep these rows, in this order, repeated or dropped, as a beam search does."""
        ...


class RowStepper(Stepper[State], Protocol[State]):
    """A model whose rows come and go, each after as many tokens as it has read: `decoding.row_batch` steps them.

    A joined state is extended by one token a row at a time, and what a row computes does not depend on the others, as
    long as there are always a multiple of `row_batch.row_multiple` of them.
    """

    def extend_hidden(self, tokens_BK: Tensor, state: State, counts_B: Tensor | None = None) -> tuple[Tensor, State]:
        """As `extend`, without the output layer: what it reads (B, K, D), and the state."""
        ...

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """What the output layer makes of it: logits (B, T, V)."""
        ...

    def join(self, states: Sequence[State]) -> State:
        """The rows of several states, all of which have read a token, in their order. Invalidates the first."""
        ...

    def fork(self, state: State, rows_B: Tensor) -> State:
        """A copy of these rows that can be joined; the state given stays valid."""
        ...


@runtime_checkable
class FixedStepper(Protocol):
    """A language model whose step can have fixed shapes, as a CUDA graph needs: `decoding.replay` records it."""

    embedding: TokenEmbedding
    stack: Stack

    def start_fixed(self, rows: int, *, capacity: int) -> KVCache:
        """An empty state for `rows` texts of up to `capacity` tokens, all of it allocated, its length on the device."""
        ...

    def extend(self, tokens_BK: Tensor, state: KVCache) -> tuple[Tensor, KVCache]:
        """As `Stepper.extend`, for rows that have all read as many tokens."""
        ...


class JointStepper(Stepper[State], Protocol[State]):
    """A model that extends several searches at once, each with the state that it has alone."""

    def joint(self, states: Sequence[State], rows: Sequence[int], blanks: int) -> State | None:
        """These states, with so many rows each, for one token of every row and of the blank ones; None: unsupported."""
        ...

    def members(self, state: State) -> list[State]:
        """The states of a joint one."""
        ...


class PrefixStepper(RowStepper[State], Protocol[State]):
    """One whose states can be cut: the state after a text has that after its beginning in it."""

    def prefix(self, state: State, length: int, *, capacity: int) -> State:
        """A copy of the state after the first `length` tokens, with room for `capacity`; the one given stays valid."""
        ...
