"""Random numbers per sequence: what is drawn for one does not depend on the rest of the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

BLOCK = 64  # numbers generated at a time, a multiple of the four that one Philox counter gives
_WORD = 2**64


class UniformStreams:
    """A stream of uniform numbers for each sequence: Philox keyed by (seed, sequence number), indexed by the step.

    Only the current block is held, so that memory does not grow with the length of the text.
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
        """Keep these sequences only."""
        self._numbers = [self._numbers[row] for row in rows.tolist()]
        if self._block >= 0:
            self._values = self._values[rows]


class UniformTable:
    """The same numbers for all steps at once, on the device, where a tensor says which step it is."""

    def __init__(self, rows: int, steps: int, device: torch.device) -> None:
        self.values = torch.zeros(rows, steps, dtype=torch.float64, device=device)
        self.step = torch.zeros((), dtype=torch.long, device=device)

    def fill(self, seed: int, numbers: Sequence[int]) -> None:
        """Begin with these sequences, at the first step."""
        steps = self.values.shape[1]
        drawn = [np.concatenate([_drawn(seed, n, block) for block in range(-(-steps // BLOCK))]) for n in numbers]
        self.values.copy_(torch.from_numpy(np.stack(drawn)[:, :steps]))
        self.step.zero_()

    def at(self, step: int) -> Tensor:
        """The numbers of the current step (B,), whatever `step` says."""
        return self.values.index_select(1, self.step.view(1)).squeeze(1)

    def select(self, rows: Tensor) -> None:
        """Raise NotImplementedError: the rows of a table stay."""
        raise NotImplementedError


def _drawn(seed: int, number: int, block: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    key = np.array([seed % _WORD, number % _WORD], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=block * BLOCK // 4)).random(BLOCK)
