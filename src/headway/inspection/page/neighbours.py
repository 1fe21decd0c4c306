"""Nearest neighbours of the page's tokens: in an embedding table, or among an encoder's vectors of single words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from headway.inspection.neighbours import nearest
from headway.tasks.explanation import EmbeddingTable, EncodedWords

COUNT = 6
MAX_TOKENS = 200  # distinct tokens of a text whose neighbours are kept
MAX_WORDS = 6000  # of the vocabulary, among which an encoder's neighbours are searched: a few seconds
MIN_LETTERS = 4  # of these words


def neighbour_entry(tables: Mapping[str, EmbeddingTable | EncodedWords]) -> dict[str, Any]:
    """For each text the space that was searched, and the nearest tokens of each of its tokens with their cosines.

    A token is not its own neighbour.
    """
    found: dict[str, Any] = {}
    for name, table in tables.items():
        if isinstance(table, EncodedWords):
            found[name] = {"space": "sentences", "lists": _nearest_words(table)}
            continue
        ids = list(dict.fromkeys(table.ids))[:MAX_TOKENS]
        vectors = F.normalize(table.vectors.detach().float(), dim=-1)
        cosines = vectors[ids] @ vectors.mT
        cosines[range(len(ids)), ids] = -torch.inf
        best = cosines.topk(min(COUNT, len(vectors) - 1))
        lists = {
            index: [[table.tokenizer.display(n), round(value, 4)] for n, value in zip(near, values, strict=True)]
            for index, near, values in zip(ids, best.indices.tolist(), best.values.tolist(), strict=True)
        }
        found[name] = {"space": "table", "lists": [lists.get(index, []) for index in table.ids]}
    return found


def _nearest_words(encoded: EncodedWords) -> list[list[list[Any]]]:
    """The nearest whole words of each token that is one."""
    every = (encoded.tokenizer.token(index) for index in range(encoded.tokenizer.size))
    words = [word for word in every if word.isalpha() and len(word) >= MIN_LETTERS][:MAX_WORDS]
    spelt = [encoded.tokenizer.token(index) for index in encoded.ids]
    asked = [word for word in dict.fromkeys(spelt) if word.isalpha()][:MAX_TOKENS]
    vectors = encoded.embed([*asked, *words])
    found: dict[str, list[list[Any]]] = {}
    for word, vector in zip(asked, vectors, strict=False):
        near = nearest(vector, vectors[len(asked) :], words, count=COUNT + 1)
        found[word] = [[each.word, round(each.cosine, 4)] for each in near if each.word != word][:COUNT]
    return [found.get(word, []) for word in spelt]
