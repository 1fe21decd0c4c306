"""How large the tiles of the Triton kernels are, and how many warps and stages work on one."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from headway.ops.kernels.base import capability


class Tile(NamedTuple):
    """Queries and keys of a tile, and how a program works on it."""

    queries: int
    keys: int
    warps: int
    stages: int


class Tiles(NamedTuple):
    """The tiles of the three kernels."""

    forward: Tile
    of_keys: Tile  # dK and dV
    of_queries: Tile  # dQ


PICKED = 16  # keys seen from everywhere, in a tile
PART = 1024  # queries whose sums over them are made together
LONG = 8192  # queries from which on the largest tiles are the faster ones; at 4,096 they lost by 2 %
TINY = Tiles(*[Tile(16, 16, 4, 1)] * 3)  # for the interpreter
SINGLE = Tiles(*[Tile(32, 32, 4, 1)] * 3)  # float32 takes no tensor cores, and twice the memory
# The fastest of those tried on an H200, causal, T=16k, bf16 (docs/flash.md).
NARROW = Tiles(Tile(64, 64, 4, 3), Tile(128, 64, 4, 2), Tile(128, 64, 4, 3))  # heads up to 64 wide
WIDE = Tiles(Tile(64, 64, 4, 3), Tile(64, 64, 4, 2), Tile(128, 64, 8, 3))
# 194 KiB for dK and dV: Hopper has 227, an A100 was not tried, and Blackwell would need more than it has.
WIDE_HOPPER = Tiles(WIDE.forward, Tile(128, 128, 8, 2), WIDE.of_queries)
WIDE_TIGHT = Tiles(WIDE.forward, WIDE.of_keys, Tile(64, 64, 4, 2))
TIGHT = Tiles(Tile(64, 64, 4, 3), Tile(64, 64, 4, 2), Tile(64, 64, 4, 3))  # for a window's edges, and for dropout


def tiles(q: Tensor, v: Tensor, *, tight: bool) -> Tiles:
    """By what the numbers take of a multiprocessor's memory and registers, and by how many queries there are."""
    if not q.is_cuda:
        return TINY
    if q.element_size() == 4:
        return SINGLE
    if max(q.shape[-1], v.shape[-1]) > 64:
        if tight:
            return WIDE_TIGHT
        return WIDE_HOPPER if capability() == 90 and q.shape[-2] >= LONG else WIDE
    return TIGHT if tight else NARROW
