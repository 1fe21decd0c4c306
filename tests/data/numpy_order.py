"""The order of training examples as versions 1 and 2 of training had it: laid out whole by numpy's generator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headway.data.batching import Order

Indices = NDArray[np.int64]


class OlderOrder(Order):
    """An order that every version shares."""

    def of(self, version: int) -> OlderOrder:
        return self


class OlderBucketed(OlderOrder):
    """Batches of sequences of similar length."""

    def __init__(self, lengths: Indices, tokens: int, seed: int) -> None:
        super().__init__(seed)
        self.lengths, self.tokens = lengths.reshape(len(lengths), -1), tokens

    def epoch(self, number: int) -> list[Indices]:
        random = self.random(number)
        shuffled = random.permutation(len(self.lengths))
        sides = self.lengths[shuffled]
        longest, lead = sides.max(1), sides[:, 0] - sides[:, -1]
        ranks = np.lexsort([np.where(longest % 2, lead, -lead), longest])
        order, longest = shuffled[ranks], longest[ranks]
        batches, start, widest = [], 0, 0
        for n, length in enumerate(longest):
            widest = max(widest, int(length))
            if n > start and widest * (n + 1 - start) > self.tokens:
                batches.append(order[start:n])
                start, widest = n, int(length)
        batches.append(order[start:])
        return [batches[n] for n in random.permutation(len(batches))]


class OlderShuffled(OlderOrder):
    """Batches of `rows` of `total` examples."""

    def __init__(self, total: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.total, self.rows = total, rows

    def epoch(self, number: int) -> list[Indices]:
        shuffled = self.random(number).permutation(self.total)
        full = max(self.total // self.rows, 1)
        return [shuffled[n * self.rows : (n + 1) * self.rows] for n in range(full)]


class OlderBlocks(OlderOrder):
    """Starts of blocks of `context` targets."""

    def __init__(self, total: int, context: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.total, self.context, self.rows = total, context, rows

    def epoch(self, number: int) -> list[Indices]:
        random = self.random(number)
        count = (self.total - 1) // self.context
        slack = self.total - 1 - count * self.context
        phase = int(random.integers(0, self.context if count > 1 else slack + 1))
        count -= phase > slack
        starts = phase + self.context * random.permutation(count)
        full = max(len(starts) // self.rows, 1)
        return [starts[n * self.rows : (n + 1) * self.rows] for n in range(full)]


class OlderDraws(OlderOrder):
    """Batches of (index, number)."""

    def __init__(self, places: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.places, self.rows = places, rows

    def epoch(self, number: int) -> list[Indices]:
        random = self.random(number)
        drawn = np.stack([random.permutation(self.places), random.integers(0, 2**62, self.places)], 1)
        full = max(self.places // self.rows, 1)
        return [drawn[n * self.rows : (n + 1) * self.rows] for n in range(full)]
