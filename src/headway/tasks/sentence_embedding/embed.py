"""Sentence embedding: one vector a text, from the vectors an encoder gives its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.data.batching import padded
from headway.data.tokenizers import Tokenizer
from headway.decoding.non_finite import expect_finite
from headway.errors import ConfigError, DataError
from headway.tasks.sentence_embedding.config import Embedding
from headway.tasks.sharing import in_one, values_in_parts

TOKENS = 8192  # in one forward pass, padding included


class Encoder(Protocol):
    """A model that gives a vector a token."""

    def __call__(self, tokens_BT: Tensor, lengths_B: Tensor) -> Tensor:
        """(B, T), lengths (B,) -> (B, T, D)."""
        ...


@torch.inference_mode()
def embed(
    encoder: Encoder, tokenizer: Tokenizer, config: Embedding, texts: Sequence[str], device: torch.device
) -> NDArray[np.float32]:
    """Texts -> (N, D) in their order; those of like length go through the encoder together.

    Raises DataError for a text without tokens, NonFiniteOutputError for a vector that is NaN or infinite.
    """
    before, after = tokenizer.around
    room = config.max_length - len(before) - len(after)
    if room < 1:
        raise ConfigError(f"task.max_length={config.max_length} leaves no room for a text")
    rows = [[*before, *ids[:room], *after] for ids in tokenizer.encode_batch(texts)]
    empty = next((n for n, row in enumerate(rows, 1) if not row), None)
    if empty is not None:
        raise DataError(f"text {empty} is empty: an encoder without special tokens needs at least one token")
    return embed_rows(encoder, rows, config, device)


@torch.no_grad()
def embed_rows(
    encoder: Encoder, rows: Sequence[Sequence[int]], config: Embedding, device: torch.device
) -> NDArray[np.float32]:
    """Texts as token ids with their special tokens -> (N, D) in their order. Raises NonFiniteOutputError."""

    def embedded(numbers: Sequence[int]) -> Tensor:
        tokens, lengths = padded([np.asarray(rows[n], np.int64) for n in numbers], 0)
        lengths_B = torch.from_numpy(lengths).to(device)
        hidden_BTD = encoder(torch.from_numpy(tokens).to(device), lengths_B).float()
        return in_one(pooled(hidden_BTD, lengths_B, config))

    batches = list(_batches([len(row) for row in rows]))
    found = values_in_parts(batches, embedded)
    width = len(found[0]) // len(batches[0]) if found else 0
    out = np.zeros((len(rows), width), np.float32)
    for numbers, values in zip(batches, found, strict=True):
        out[numbers] = values.view(len(numbers), width).numpy()
    expect_finite(torch.from_numpy(out), "text")
    return out


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices, the longest first, as many at once as fit."""
    order = sorted(range(len(lengths)), key=lambda n: (-lengths[n], n))
    while order:
        count = max(TOKENS // max(lengths[order[0]], 1), 1)
        yield order[:count]
        order = order[count:]


def pooled(hidden_BTD: Tensor, lengths_B: Tensor, config: Embedding) -> Tensor:
    """(B, T, D) and lengths (B,) -> (B, D): a vector a text."""
    real_BT1 = (torch.arange(hidden_BTD.shape[1], device=hidden_BTD.device) < lengths_B.unsqueeze(1)).unsqueeze(-1)
    if config.pooling == "cls":
        vectors_BD = hidden_BTD[:, 0]
    elif config.pooling == "max":
        vectors_BD = hidden_BTD.masked_fill(~real_BT1, -torch.inf).amax(1)
    else:
        vectors_BD = (hidden_BTD * real_BT1).sum(1) / lengths_B.unsqueeze(1)
    return torch.nn.functional.normalize(vectors_BD, dim=-1) if config.normalise else vectors_BD
