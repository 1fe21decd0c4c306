"""Which tokens lie near each other in an embedding table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.data.tokenizers import Tokenizer

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
        ids = list(dict.fromkeys(table.ids))[:DIFFERENT]
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
