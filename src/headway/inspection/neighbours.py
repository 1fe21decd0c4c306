"""Nearest neighbours by cosine in an embedding space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A word and its cosine similarity."""

    word: str
    cosine: float


@torch.no_grad()
def nearest(query_D: Tensor, table_VD: Tensor, words: Sequence[str], *, count: int = 10) -> list[Neighbour]:
    """The words whose vectors have the largest cosine with `query_D`, best first."""
    if len(words) != len(table_VD):
        raise ConfigError(f"{len(words)} words for a table of {len(table_VD)} vectors")
    cosines = F.normalize(table_VD.float(), dim=-1) @ F.normalize(query_D.float(), dim=-1)
    best = cosines.topk(min(count, len(words)))
    return [Neighbour(words[n], value) for n, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)]


def neighbours(
    word: str, words: Iterable[str], vectors: Callable[[Sequence[str]], Tensor], *, count: int = 10
) -> list[Neighbour]:
    """The nearest of `words` to a word, itself excluded; `vectors` embeds words, as `Run.embed` does."""
    others = [other for other in dict.fromkeys(words) if other != word]
    if not others:
        raise ConfigError(f"no other words among which to find neighbours of {word!r}")
    table = torch.as_tensor(vectors([word, *others]))
    return nearest(table[0], table[1:], others, count=count)


def rank(word: str, other: str, words: Iterable[str], vectors: Callable[[Sequence[str]], Tensor]) -> int:
    """The rank of another word among the neighbours of `word`, 1 for the nearest."""
    candidates = list(dict.fromkeys([*words, other]))
    found = neighbours(word, candidates, vectors, count=len(candidates))
    return next(n for n, each in enumerate(found, 1) if each.word == other)
