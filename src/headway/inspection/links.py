"""Which heads look from one token to another: *it* and what it stands for, a word and the one it translates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from headway.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Link:
    """A head, and the weight it gives."""

    site: str  # the attention: "layers.3.self"
    head: int  # among those captured
    weight: float


def links(seen: Mapping[str, Tensor], query: int, key: int, *, row: int = 0, count: int = 10) -> list[Link]:
    """The heads that look hardest from a query at a key, of captured weights, best first.

    `query` counts the rows that were captured, `key` the tokens that are looked at, `row` the texts of the batch.
    """
    found: list[Link] = []
    for name, weights in seen.items():
        if name.endswith(".weights") and query < weights.shape[2] and key < weights.shape[3]:
            given = weights[row, :, query, key].tolist()
            found += [Link(name.removesuffix(".weights"), head, weight) for head, weight in enumerate(given)]
    if not found:
        raise ConfigError(f"no captured weights have a row {query} and a key {key}")
    return sorted(found, key=lambda link: -link.weight)[:count]
