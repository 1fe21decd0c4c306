"""Bytes that attention moves between main memory (HBM) and on-chip memory: by the formula, and in tiles.

The numbers of docs/flash.md; tests/ops/test_flash_torch.py compares them with what `flash_torch` reads and writes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.ops.masks import Mask

STATISTIC = 4  # bytes of L and of D, each one float32 per query


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read and written."""

    forward: int
    backward: int

    @property
    def total(self) -> int:
        """Forward and backward."""
        return self.forward + self.backward


def naive_traffic(queries: int, keys: int, width: int, *, heads: int = 1, number: int = 2) -> Traffic:
    """Scores, weights and their gradients each written and read as a whole; `number` is the bytes of a number.

    Forward, S = QKᵀ, P = softmax S, O = PV pass over T·S numbers four times; backward, dV = PᵀdO, dP = dOVᵀ,
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
    """What `kernels.flash_torch` reads and writes: per tile of queries one tile of keys at a time, and vice versa.

    Tiles in which the mask allows nothing are skipped. `mask` is evaluated for its first batch row and head.
    """
    by_query, by_key = 0, 0
    for i in range(0, queries, tile[0]):
        for j in range(0, keys, tile[1]):
            rows, columns = min(tile[0], queries - i), min(tile[1], keys - j)
            if _touched(mask, i, j, rows, columns):
                by_query, by_key = by_query + columns, by_key + rows
    both = 2 * width * number  # bytes of a token in Q and dO, in K and V
    forward = both * (queries + by_query) + STATISTIC * queries
    delta = both * queries + STATISTIC * queries
    to_keys = 2 * both * keys + (both + 2 * STATISTIC) * by_key
    to_queries = (both + 2 * STATISTIC) * queries + both * by_query + width * number * queries
    return Traffic(heads * forward, heads * (delta + to_keys + to_queries))


def _touched(mask: Mask | None, i: int, j: int, rows: int, columns: int) -> bool:
    if mask is None:
        return True
    low, high = mask.reach()
    if j + columns - 1 - i < low or j - (i + rows - 1) > high:
        return False
    zero = torch.zeros(1, 1, dtype=torch.long)
    return bool(mask.allowed(zero, zero, torch.arange(i, i + rows).view(-1, 1), torch.arange(j, j + columns)).any())
