"""The order of training examples in batches: deterministic, and resumable from a cursor of two numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.counts import counted
from headway.errors import DataError

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position in the training data: the epoch, and how many of its batches are consumed."""

    epoch: int = 0
    batch: int = 0


class Order:
    """The batches of each epoch, a function of (seed, epoch) only, so that any epoch can be recomputed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def epoch(self, number: int) -> list[Indices]:
        """All batches of an epoch, in order."""
        raise NotImplementedError

    def batches(self, number: int = 0) -> int:
        """How many batches an epoch has; another epoch may have a few more or less."""
        return len(self.epoch(number))

    def random(self, epoch: int) -> np.random.Generator:
        """The generator of this epoch."""
        return np.random.default_rng([self.seed, epoch])

    def after(self, cursor: Cursor) -> Iterator[tuple[Indices, Cursor]]:
        """An endless iterator over batches from the cursor on, each with the next cursor."""
        while True:
            batches = self.epoch(cursor.epoch)
            for n in range(cursor.batch, len(batches)):
                last = n + 1 == len(batches)
                yield batches[n], Cursor(cursor.epoch + 1, 0) if last else Cursor(cursor.epoch, n + 1)
            cursor = Cursor(cursor.epoch + 1, 0)


class Bucketed(Order):
    """Batches of sequences of similar length, rows × longest at most `tokens`; every sequence once per epoch.

    `lengths` is (N,) or (N, sides); with several sides the longest counts, as the padded batch will.
    """

    def __init__(self, lengths: NDArray[np.int64], tokens: int, seed: int) -> None:
        super().__init__(seed)
        self.lengths = lengths.reshape(len(lengths), -1)
        self.tokens = tokens
        if not len(lengths):
            raise DataError("no sequences to make batches of")

    def epoch(self, number: int) -> list[Indices]:
        """Batches of sequence numbers."""
        random = self.random(number)
        shuffled = random.permutation(len(self.lengths))
        # Sorted by the longer side, then by the difference of the sides, alternately ascending and descending, so that
        # neighbours are similar where the longer side changes too. Ties keep the shuffled order: epochs differ.
        sides = self.lengths[shuffled]
        longest, lead = sides.max(1), sides[:, 0] - sides[:, -1]
        ranks = np.lexsort([np.where(longest % 2, lead, -lead), longest])
        order, longest = shuffled[ranks], longest[ranks]
        batches, start = [], 0
        widest = 0
        for n, length in enumerate(longest):
            widest = max(widest, int(length))
            if n > start and widest * (n + 1 - start) > self.tokens:
                batches.append(order[start:n])
                start, widest = n, int(length)
        batches.append(order[start:])
        return [batches[n] for n in random.permutation(len(batches))]


class Shuffled(Order):
    """Batches of `rows` of `total` examples, each at most once per epoch; an incomplete last batch is dropped."""

    def __init__(self, total: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.total, self.rows = total, rows
        if not total:
            raise DataError("nothing to make batches of")

    def epoch(self, number: int) -> list[Indices]:
        """Batches of numbers below `total`."""
        shuffled = self.random(number).permutation(self.total)
        full = max(self.total // self.rows, 1)
        return [shuffled[n * self.rows : (n + 1) * self.rows] for n in range(full)]


class Blocks(Order):
    """A text cut into blocks of `context` targets; each epoch starts at another offset and uses every block once."""

    def __init__(self, total: int, context: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.total, self.context, self.rows = total, context, rows
        if total < context + 1:
            raise DataError(f"the text has {counted(total, 'token')}, a block of context {context} needs {context + 1}")

    @property
    def full(self) -> bool:
        """Whether every batch of every epoch has `rows` rows; an epoch may have a block less than fits the text."""
        return (self.total - 1) // self.context > self.rows

    def epoch(self, number: int) -> list[Indices]:
        """Batches of block starts; an incomplete last batch is dropped."""
        random = self.random(number)
        count = (self.total - 1) // self.context
        slack = self.total - 1 - count * self.context
        # A new offset each epoch, so that block boundaries vary.
        phase = int(random.integers(0, self.context if count > 1 else slack + 1))
        count -= phase > slack
        starts = phase + self.context * random.permutation(count)
        full = max(len(starts) // self.rows, 1)
        return [starts[n * self.rows : (n + 1) * self.rows] for n in range(full)]


class Draws(Order):
    """Batches of (index, seed): every index once per epoch, each with a seed from which its row is generated.

    A row depends on nothing else, so that resuming and micro-batches do not change it.
    """

    def __init__(self, places: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.places, self.rows = places, rows

    def epoch(self, number: int) -> list[Indices]:
        """Batches (rows, 2); an incomplete last one is dropped."""
        random = self.random(number)
        drawn = np.stack([random.permutation(self.places), random.integers(0, 2**62, self.places)], 1)
        full = max(self.places // self.rows, 1)
        return [drawn[n * self.rows : (n + 1) * self.rows] for n in range(full)]


def like_length(lengths: Indices, most: int) -> Iterator[Indices]:
    """The numbers of all sequences, the longest first, as many at once as `most` tokens with padding; one at least."""
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        count = max(most // int(lengths[order[0]]), 1)
        yield order[:count]
        order = order[count:]


def padded(sequences: list[NDArray[np.uint32]], pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sequences -> padded (B, T) and their lengths (B,)."""
    lengths = np.asarray([len(sequence) for sequence in sequences], dtype=np.int64)
    out = np.full((len(sequences), int(lengths.max())), pad, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        out[row, : len(sequence)] = sequence
    return out, lengths
