"""Token embeddings, one-hot vectors and the output layer; checks on token ids and lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.errors import DataError, ShapeError

TokenInput = Literal["embedding", "one-hot"]


def check_tokens(tokens: Tensor, vocab: int) -> None:
    """Raise DataError if an id lies outside the vocabulary, ShapeError if tokens are not (B, T).

    On a GPU reading the ids would synchronise: there single steps, whose token the model chose itself, are not checked,
    nor is anything in a compiled or captured graph.
    """
    if tokens.ndim != 2:
        raise ShapeError(f"tokens have shape {tuple(tokens.shape)}, expected (B, T)")
    if tokens.dtype not in (torch.long, torch.int):
        raise ShapeError(f"tokens are {tokens.dtype}, expected integer ids (torch.long)")
    if not tokens.numel() or _unseen(tokens) or (tokens.is_cuda and tokens.shape[1] == 1):
        return
    low, high = torch.stack(torch.aminmax(tokens)).tolist()  # one synchronisation
    if low < 0 or high >= vocab:
        wrong = low if low < 0 else high
        row, column = (tokens == wrong).nonzero()[0].tolist()
        raise DataError(f"token id {wrong} in row {row}, position {column}: allowed are 0 to {vocab - 1}")


def _unseen(tensor: Tensor) -> bool:
    """Whether values cannot be read now: while a graph is compiled or captured, or on the meta device."""
    if torch.compiler.is_compiling() or tensor.is_meta:
        return True
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def check_lengths(lengths: Tensor | None, tokens: Tensor, what: str = "sequence") -> None:
    """Raise ShapeError or DataError unless lengths are (B,) integers from 1 to the padded length."""
    rows, longest = tokens.shape[0], tokens.shape[-1]
    if lengths is None:
        if not longest:
            raise DataError(f"the {what} is empty: it needs at least one token")
        return
    if tuple(lengths.shape) != (rows,):
        raise ShapeError(f"{what} lengths have shape {tuple(lengths.shape)}, the batch needs ({rows},)")
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ShapeError(f"{what} lengths are {lengths.dtype}, expected integers")
    if lengths.device != tokens.device:
        raise ShapeError(f"{what} lengths are on {lengths.device}, the tokens on {tokens.device}")
    if _unseen(lengths):
        return
    for row, length in enumerate(lengths.tolist()):
        if not 1 <= length <= longest:
            raise DataError(f"{what} length {length} in batch row {row}: allowed are 1 to {longest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEmbeddingConfig:
    """A table of token vectors, multiplied by `scale` (√D in Vaswani et al. 2017, section 3.4)."""

    vocab: int
    width: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        positive("vocab", self.vocab)
        positive("width", self.width)


class TokenEmbedding(nn.Module):
    """Token ids (B, T) -> vectors (B, T, D)."""

    def __init__(self, config: TokenEmbeddingConfig) -> None:
        super().__init__()
        self.vocab, self.scale = config.vocab, config.scale
        self.weight = nn.Parameter(torch.empty(config.vocab, config.width))
        nn.init.normal_(self.weight)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """(B, T) -> (B, T, D)."""
        check_tokens(tokens_BT, self.vocab)
        x = F.embedding(tokens_BT, self.weight)
        return x * self.scale if self.scale != 1.0 else x


class Head(nn.Module):
    """Vectors (B, T, D) -> logits (B, T, V), with its own matrix or, tied, with the embedding's.

    A tied head has no matrix: there is one tensor, which saving or moving cannot duplicate.
    """

    def __init__(self, width: int, vocab: int, *, tied: bool, bias: bool) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocab, width))
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None
        if self.weight is not None:
            nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, x_BTD: Tensor, embedding_VD: Tensor | None) -> Tensor:
        """(B, T, D) and the embedding's table -> (B, T, V)."""
        return F.linear(x_BTD, self.matrix(embedding_VD), self.bias)

    def matrix(self, embedding_VD: Tensor | None) -> Tensor:
        """The matrix (V, D) that is used: its own or the embedding's."""
        matrix = embedding_VD if self.weight is None else self.weight
        assert matrix is not None
        return matrix


class OneHot(nn.Module):
    """Token ids (B, T) -> one-hot vectors (B, T, V)."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.vocab = vocab
        self.weight = None  # no table to train or to tie
        self.register_buffer("_like", torch.zeros(()), persistent=False)  # carries the model's dtype

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """(B, T) -> (B, T, V)."""
        check_tokens(tokens_BT, self.vocab)
        assert isinstance(self._like, Tensor)
        return F.one_hot(tokens_BT.long(), self.vocab).to(self._like.dtype)
