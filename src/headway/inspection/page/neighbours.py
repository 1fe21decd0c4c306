"""Nearest neighbours of the page's tokens: in an embedding table, or among an encoder's vectors of single words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.data.tokenizers import Tokenizer
from headway.inspection.neighbours import nearest

COUNT = 6
MAX_TOKENS = 200  # distinct tokens of a text whose neighbours are kept
MAX_WORDS = 6000  # of the vocabulary, among which an encoder's neighbours are searched: a few seconds
MIN_LETTERS = 4  # of these words
Embed = Callable[[Sequence[str]], Tensor]  # texts -> (N, D)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingTable:
    """A text's tokens, and the vectors of the whole vocabulary."""

    ids: Sequence[int]
    vectors: Tensor  # (V, D)
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedWords:
    """A text's tokens, and an encoder that embeds each of them, and words of the vocabulary, as texts of their own."""

    ids: Sequence[int]
    embed: Embed
    tokenizer: Tokenizer

    def lists(self) -> list[list[list[Any]]]:
        """The nearest words of each token that is a word."""
        every = (self.tokenizer.token(index) for index in range(self.tokenizer.size))
        words = [word for word in every if word.isalpha() and len(word) >= MIN_LETTERS][:MAX_WORDS]
        spelt = [self.tokenizer.token(index) for index in self.ids]
        asked = [word for word in dict.fromkeys(spelt) if word.isalpha()][:MAX_TOKENS]
        vectors = self.embed([*asked, *words])
        found: dict[str, list[list[Any]]] = {}
        for word, vector in zip(asked, vectors, strict=False):
            near = nearest(vector, vectors[len(asked) :], words, count=COUNT + 1)
            found[word] = [[each.word, round(each.cosine, 4)] for each in near if each.word != word][:COUNT]
        return [found.get(word, []) for word in spelt]


def neighbour_entry(tables: Mapping[str, EmbeddingTable | EncodedWords]) -> dict[str, Any]:
    """For each text the nearest tokens of each of its tokens, with their cosines, itself excluded."""
    found: dict[str, Any] = {}
    for name, table in tables.items():
        if isinstance(table, EncodedWords):
            found[name] = table.lists()
            continue
        ids = list(dict.fromkeys(table.ids))[:MAX_TOKENS]
        vectors = F.normalize(table.vectors.detach().float(), dim=-1)
        cosines = vectors[ids] @ vectors.mT
        cosines[range(len(ids)), ids] = -torch.inf
        best = cosines.topk(min(COUNT, len(vectors) - 1))
        lists = {
            index: [[table.tokenizer.token(n), round(value, 4)] for n, value in zip(near, values, strict=True)]
            for index, near, values in zip(ids, best.indices.tolist(), best.values.tolist(), strict=True)
        }
        found[name] = [lists.get(index, []) for index in table.ids]
    return found
