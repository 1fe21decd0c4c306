"""How many bytes attention moves between the large memory and the small one: as the formula says, and in tiles."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.ops.masks import Mask

LINE = 4  # bytes of the two numbers kept for each query, in float32


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read and written."""

    forward: int
    backward: int

    @property
    def total(self) -> int:
        """Both ways."""
        return self.forward + self.backward


def naive_traffic(queries: int, keys: int, width: int, *, heads: int = 1, number: int = 2) -> Traffic:
    """Scores, weights and their gradients each written and read whole; `number` bytes a number.

    Forwards S = QKᵀ, P = softmax S, O = PV pass over T·S numbers four times; backwards dV = PᵀdO, dP = dOVᵀ,
    dS = P∘(dP - D), dQ = dSK, dK = dSᵀQ pass over them seven times.
    """
    square, ends = queries * keys, 2 * (queries + keys) * width
    return Traffic(number * heads * (4 * square + ends), number * heads * (7 * square + 2 * ends))


def tiled_traffic(
    queries: int,
    keys: int,
    width: int,
    *,
    tile: tuple[int, int] = (64, 64),
    mask: Mask | None = None,
    heads: int = 1,
    number: int = 2,
) -> Traffic:
    """What `kernels.tiled` reads and writes, a tile of keys (queries, backwards) at a time for each tile of queries.

    Tiles in which the mask allows nothing are not read. `mask` is asked for its first batch row and head.
    """
    by_query, by_key = 0, 0
    for i in range(0, queries, tile[0]):
        for j in range(0, keys, tile[1]):
            rows, columns = min(tile[0], queries - i), min(tile[1], keys - j)
            if _touched(mask, i, j, rows, columns):
                by_query, by_key = by_query + columns, by_key + rows
    both = 2 * width * number  # bytes of a token in Q and dO, in K and V
    forward = both * (queries + by_query) + LINE * queries
    products = both * queries + LINE * queries
    to_keys = 2 * both * keys + (both + 2 * LINE) * by_key
    to_queries = (both + 2 * LINE) * queries + both * by_query + width * number * queries
    return Traffic(heads * forward, heads * (products + to_keys + to_queries))


def _touched(mask: Mask | None, i: int, j: int, rows: int, columns: int) -> bool:
    if mask is None:
        return True
    low, high = mask.reach()
    if j + columns - 1 - i < low or j - (i + rows - 1) > high:
        return False
    zero = torch.zeros(1, 1, dtype=torch.long)
    return bool(mask.allowed(zero, zero, torch.arange(i, i + rows).view(-1, 1), torch.arange(j, j + columns)).any())
