"""Nearest neighbours of the page's tokens: in an embedding table, or among an encoder's vectors of single words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.inspection.neighbours import nearest
from headway.tasks.explanation import EmbeddingTable, EncodedWords

COUNT = 6
MAPPED = 24  # distinct tokens that stand on the map with their neighbours
MAX_TOKENS = 200  # distinct tokens of a text whose neighbours are kept
MAX_WORDS = 6000  # of the vocabulary, among which an encoder's neighbours are searched: a few seconds
MIN_LETTERS = 4  # of these words


def neighbour_entry(tables: Mapping[str, EmbeddingTable | EncodedWords]) -> dict[str, Any]:
    """For each text the space that was searched, and the nearest tokens of each of its tokens with their cosines.

    A token is not its own neighbour. The map has the tokens and their neighbours by their first two principal
    components.
    """
    found: dict[str, Any] = {}
    for name, table in tables.items():
        if isinstance(table, EncodedWords):
            of_words, points = _nearest_words(table)
            found[name] = {"space": "sentences", "lists": of_words, "map": points}
            continue
        ids = list(dict.fromkeys(table.ids))[:MAX_TOKENS]
        vectors = F.normalize(table.vectors.detach().float(), dim=-1)
        cosines = vectors[ids] @ vectors.mT
        cosines[range(len(ids)), ids] = -torch.inf
        best = cosines.topk(min(COUNT, len(vectors) - 1))
        shown = list(dict.fromkeys([*ids[:MAPPED], *best.indices[:MAPPED].flatten().tolist()]))
        lists = {
            index: [[table.tokenizer.display(n), round(value, 4)] for n, value in zip(near, values, strict=True)]
            for index, near, values in zip(ids, best.indices.tolist(), best.values.tolist(), strict=True)
        }
        words = [table.tokenizer.display(index) for index in shown]
        points = _points(table.vectors[shown], words, min(len(ids), MAPPED))
        found[name] = {"space": "table", "lists": [lists.get(index, []) for index in table.ids], "map": points}
    return found


def _points(vectors_ND: Tensor, words: Sequence[str], own: int) -> dict[str, Any] | None:
    """The first two principal components of some vectors, of which the first `own` are the text's tokens."""
    if len(words) < 3:
        return None
    centred = vectors_ND.detach().double().cpu()
    centred = centred - centred.mean(0)
    _, sizes, directions = torch.linalg.svd(centred, full_matrices=False)
    places = centred @ directions[:2].mT
    places = places * directions[:2].sum(-1).sign()  # of the two signs one, on every machine the same
    variance = sizes.square()
    return {
        "words": list(words),
        "own": own,
        "places": [[round(value, 5) for value in place] for place in places.tolist()],
        "shares": [round(float(share), 4) for share in variance[:2] / variance.sum().clamp_min(1e-30)],
    }


def _nearest_words(encoded: EncodedWords) -> tuple[list[list[list[Any]]], dict[str, Any] | None]:
    """The nearest whole words of each token that is one, and the map of both."""
    every = (encoded.tokenizer.token(index) for index in range(encoded.tokenizer.size))
    words = [word for word in every if word.isalpha() and len(word) >= MIN_LETTERS][:MAX_WORDS]
    spelt = [encoded.tokenizer.token(index) for index in encoded.ids]
    asked = [word for word in dict.fromkeys(spelt) if word.isalpha()][:MAX_TOKENS]
    vectors = encoded.embed([*asked, *words])
    found: dict[str, list[list[Any]]] = {}
    for word, vector in zip(asked, vectors, strict=False):
        best = nearest(vector, vectors[len(asked) :], words, count=COUNT + 1)
        found[word] = [[each.word, round(each.cosine, 4)] for each in best if each.word != word][:COUNT]
    near = [word for own in asked[:MAPPED] for word, _ in found[own]]
    rows = {word: n for n, word in reversed(list(enumerate([*asked, *words])))}
    shown = list(dict.fromkeys([*asked[:MAPPED], *near]))
    points = _points(vectors[[rows[word] for word in shown]], shown, min(len(asked), MAPPED))
    return [found.get(word, []) for word in spelt], points
