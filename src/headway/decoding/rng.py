"""Random numbers that belong to a sequence: what is drawn for it does not depend on what is decoded beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

BLOCK = 64  # numbers made at a time, a multiple of the four that one Philox counter gives
_WORD = 2**64


class Uniforms:
    """Number t of sequence n under a seed: Philox keyed by (seed, n), a stream of its own for each sequence.

    Only the block in use is held, so that memory does not grow with what is generated.
    """

    def __init__(self, seed: int, numbers: Sequence[int], device: torch.device) -> None:
        self._seed, self._numbers, self._device = seed, list(numbers), device
        self._block = -1
        self._values = torch.empty(0)

    def at(self, step: int) -> Tensor:
        """The number in [0, 1) of each sequence at this step (B,), in double precision."""
        block, place = divmod(step, BLOCK)
        if block != self._block:
            self._block = block
            drawn = [_drawn(self._seed, number, block) for number in self._numbers]
            self._values = torch.from_numpy(np.stack(drawn) if drawn else np.empty((0, BLOCK))).to(self._device)
        return self._values[:, place]

    def select(self, rows: Tensor) -> None:
        """Go on with these sequences only."""
        self._numbers = [self._numbers[row] for row in rows.tolist()]
        if self._block >= 0:
            self._values = self._values[rows]


def _drawn(seed: int, number: int, block: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    key = np.array([seed % _WORD, number % _WORD], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=block * BLOCK // 4)).random(BLOCK)
