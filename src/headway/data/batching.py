"""Which sequences make a batch, in which order: deterministic, and resumable from a cursor of two numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where training stands in its data: the epoch, and how many of its batches are used."""

    epoch: int = 0
    batch: int = 0


class Order:
    """The batches of each epoch, shuffled by (seed, epoch) alone: an epoch can be laid out again at any time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def epoch(self, number: int) -> list[Indices]:
        """All batches of an epoch, in order."""
        raise NotImplementedError

    def random(self, epoch: int) -> np.random.Generator:
        """The stream that lays out this epoch."""
        return np.random.default_rng([self.seed, epoch])

    def after(self, cursor: Cursor) -> Iterator[tuple[Indices, Cursor]]:
        """Batches from the cursor on, for ever, each with the cursor that follows it."""
        while True:
            batches = self.epoch(cursor.epoch)
            for n in range(cursor.batch, len(batches)):
                last = n + 1 == len(batches)
                yield batches[n], Cursor(cursor.epoch + 1, 0) if last else Cursor(cursor.epoch, n + 1)
            cursor = Cursor(cursor.epoch + 1, 0)


class Bucketed(Order):
    """Sequences of like length together, rows × longest at most `tokens`: little padding, every sequence once an epoch.

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
        # Sorted by the longer side, within it by how much longer, up and down in turn, so that neighbours are alike
        # also where the longer side changes; ties in the shuffled order: batches differ from epoch to epoch.
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
    """So many of `total` things a batch, each at most once an epoch; a last batch that is not full is left out."""

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
    """A text cut into blocks of `context` targets: each epoch begins at another place and uses every block once."""

    def __init__(self, total: int, context: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.total, self.context, self.rows = total, context, rows
        if total < context + 1:
            raise DataError(f"the text has {total} tokens, a block of context {context} needs {context + 1}")

    def epoch(self, number: int) -> list[Indices]:
        """Batches of block starts; a last batch that is not full waits for another epoch."""
        random = self.random(number)
        count = (self.total - 1) // self.context
        slack = self.total - 1 - count * self.context
        # A fresh phase each epoch, so that words do not always meet the same block edge.
        phase = int(random.integers(0, self.context if count > 1 else slack + 1))
        count -= phase > slack
        starts = phase + self.context * random.permutation(count)
        full = max(len(starts) // self.rows, 1)
        return [starts[n * self.rows : (n + 1) * self.rows] for n in range(full)]


class Draws(Order):
    """Every place once an epoch, each with a number of its own from which its row is drawn: rows of (place, number).

    A row depends on nothing else, so that a resumed run, and any division into micro-batches, sees the same rows.
    """

    def __init__(self, places: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.places, self.rows = places, rows

    def epoch(self, number: int) -> list[Indices]:
        """Batches (rows, 2); a last one that is not full waits for another epoch."""
        random = self.random(number)
        drawn = np.stack([random.permutation(self.places), random.integers(0, 2**62, self.places)], 1)
        full = max(self.places // self.rows, 1)
        return [drawn[n * self.rows : (n + 1) * self.rows] for n in range(full)]


def padded(sequences: list[NDArray[np.uint32]], pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sequences side by side (B, T) and their lengths (B,)."""
    lengths = np.asarray([len(sequence) for sequence in sequences], dtype=np.int64)
    out = np.full((len(sequences), int(lengths.max())), pad, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        out[row, : len(sequence)] = sequence
    return out, lengths
