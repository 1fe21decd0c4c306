"""Which tokens lie near each other in an embedding table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from headway.data.tokenizers import Tokenizer
from headway.inspection.neighbours import nearest

COUNT = 6
DIFFERENT = 200  # tokens of a text that are looked up


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A text's tokens, and the vectors of all tokens there are."""

    ids: Sequence[int]
    vectors: Tensor  # (V, D)
    tokenizer: Tokenizer


def near_entry(tables: Mapping[str, Table]) -> dict[str, Any]:
    """For each text the nearest tokens of each of its tokens, with their cosines, itself left out."""
    found: dict[str, Any] = {}
    for name, table in tables.items():
        words = [table.tokenizer.token(index) for index in range(len(table.vectors))]
        lists: dict[int, list[list[Any]]] = {}
        for index in list(dict.fromkeys(table.ids))[:DIFFERENT]:
            best = nearest(table.vectors[index], table.vectors, words, count=COUNT + 1)
            lists[index] = [[each.word, round(each.cosine, 4)] for each in best if each.word != words[index]][:COUNT]
        found[name] = [lists.get(index, []) for index in table.ids]
    return found
