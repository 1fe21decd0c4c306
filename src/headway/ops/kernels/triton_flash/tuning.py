"""Tile sizes of the Triton kernels, and the warps and pipeline stages that work on a tile."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from headway.ops.kernels.base import capability


class TileConfig(NamedTuple):
    """Queries and keys of a tile, and how a program processes it."""

    queries: int
    keys: int
    warps: int
    stages: int


class FlashTiles(NamedTuple):
    """The tiles of the three kernels."""

    forward: TileConfig
    dk_dv: TileConfig
    dq: TileConfig


GLOBALS_PER_TILE = 16  # global keys in a tile
QUERIES_PER_PART = 1024  # queries over which one program sums the gradients of a tile of global keys
LONG_QUERIES = 8192  # from which the largest tiles are faster; at 4,096 they were 2 % slower
INTERPRETER_TILES = FlashTiles(*[TileConfig(16, 16, 4, 1)] * 3)
FLOAT32_TILES = FlashTiles(*[TileConfig(32, 32, 4, 1)] * 3)  # without tensor cores, and twice the memory
# The fastest of those tried on an H200, causal, T=16k, bf16 (docs/flash.md). Heads up to 64 wide:
NARROW = FlashTiles(TileConfig(64, 64, 4, 3), TileConfig(128, 64, 4, 2), TileConfig(128, 64, 4, 3))
NARROW_SMALL = FlashTiles(TileConfig(64, 64, 4, 3), TileConfig(64, 64, 4, 2), TileConfig(64, 64, 4, 3))
# Heads up to 128 wide:
WIDE = FlashTiles(TileConfig(64, 64, 4, 3), TileConfig(64, 64, 4, 2), TileConfig(128, 64, 8, 3))
WIDE_SMALL = FlashTiles(WIDE.forward, WIDE.dk_dv, TileConfig(64, 64, 4, 2))
# 194 KiB of shared memory for dK and dV: Hopper has 227; not tried on an A100; Blackwell would need more than it has.
WIDE_HOPPER = FlashTiles(WIDE.forward, TileConfig(128, 128, 8, 2), WIDE.dq)


def select_tiles(q: Tensor, v: Tensor, *, small: bool) -> FlashTiles:
    """The tiles for q and v, by their need of shared memory and registers, and by the number of queries.

    `small`: a window, whose edges cut many tiles, or dropout, which needs registers.
    """
    if not q.is_cuda:
        return INTERPRETER_TILES
    if q.element_size() == 4:
        return FLOAT32_TILES
    if max(q.shape[-1], v.shape[-1]) > 64:
        if small:
            return WIDE_SMALL
        return WIDE_HOPPER if capability() == 90 and q.shape[-2] >= LONG_QUERIES else WIDE
    return NARROW_SMALL if small else NARROW
