"""The order of training examples in batches: deterministic, and resumable from a cursor in constant time."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headway.counts import counted
from headway.data.permutation import Computed, Permutation, hash64, keys
from headway.errors import DataError

Indices = NDArray[np.int64]

FORMULA = 3  # the first version of training (trainer.json) whose order follows from a formula
WINDOW = 1 << 20  # sequences that are sorted by length at once
COUNTED = 1 << 62  # numbers of rows from here on: all that the row draws is a hash of its number and a counter


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position in the training data: the epoch, the window of it, and how many of its batches are consumed."""

    epoch: int = 0
    batch: int = 0
    window: int = 0


class Order:
    """The batches of each epoch, a function of (seed, epoch) only, so that any epoch can be recomputed."""

    windows = 1  # parts of an epoch that are laid out one after the other

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.by_formula = True

    def of(self, version: int) -> Self:
        """The order of the runs that this version of training began."""
        if version >= FORMULA:
            return self
        older = copy.copy(self)
        older.by_formula = False
        return older

    def epoch(self, number: int) -> Sequence[Indices]:
        """All batches of an epoch, in order."""
        raise NotImplementedError

    def window(self, epoch: int, number: int) -> Sequence[Indices]:
        """The batches of one window of an epoch."""
        return self.epoch(epoch)

    def batches(self, number: int = 0) -> int:
        """How many batches an epoch has; another epoch may have a few more or less."""
        return len(self.epoch(number))

    def random(self, epoch: int) -> np.random.Generator:
        """The generator of this epoch."""
        return np.random.default_rng([self.seed, epoch])

    def after(self, cursor: Cursor) -> Iterator[tuple[Indices, Cursor]]:
        """An endless iterator over batches from the cursor on, each with the next cursor."""
        while True:
            batches = self.window(cursor.epoch, cursor.window)
            following = Cursor(cursor.epoch, 0, cursor.window + 1)
            if following.window == self.windows:
                following = Cursor(cursor.epoch + 1)
            for n in range(cursor.batch, len(batches)):
                last = n + 1 == len(batches)
                yield batches[n], following if last else Cursor(cursor.epoch, n + 1, cursor.window)
            cursor = following

    def _permutation(self, size: int, random: np.random.Generator, *path: int) -> Permutation | Indices:
        """A permutation of the numbers below `size`: by its path, or in older runs the next that `random` draws."""
        return Permutation(size, self.seed, *path) if self.by_formula else random.permutation(size)


class Bucketed(Order):
    """Batches of sequences of similar length, rows × longest at most `tokens`; every sequence once per epoch.

    `lengths` is (N,) or (N, sides); with several sides the longest counts, as the padded batch will. Sequences are
    sorted by length within windows of about `window` of them, which are drawn anew in each epoch.
    """

    def __init__(self, lengths: NDArray[np.int64], tokens: int, seed: int, *, window: int = WINDOW) -> None:
        super().__init__(seed)
        self.lengths = lengths.reshape(len(lengths), -1)
        self.tokens = tokens
        self.windows = -(-len(lengths) // window)
        if not len(lengths):
            raise DataError("no sequences to make batches of")

    def of(self, version: int) -> Self:
        """The order of the runs that this version of training began: older ones sort all sequences at once."""
        order = super().of(version)
        if not order.by_formula:
            order.windows = 1
        return order

    def epoch(self, number: int) -> Sequence[Indices]:
        """Batches of sequence numbers."""
        return [batch for n in range(self.windows) for batch in self.window(number, n)]

    def window(self, epoch: int, number: int) -> Sequence[Indices]:
        """The batches of one window of an epoch."""
        total, random = len(self.lengths), self.random(epoch)
        first, end = number * total // self.windows, (number + 1) * total // self.windows
        batches = in_buckets(self._permutation(total, random, epoch)[first:end], self.lengths, self.tokens)
        order = self._permutation(len(batches), random, epoch, number)[:]
        return Computed(len(batches), lambda n: batches[order[n]])

    def batches(self, number: int = 0) -> int:
        """How many batches an epoch has, judged by its first window."""
        return len(self.window(number, 0)) * self.windows


def in_buckets(shuffled: Indices, lengths: NDArray[np.int64], tokens: int) -> list[Indices]:
    """Cut sequences, given in random order, into batches of similar lengths, rows × longest at most `tokens`."""
    # Sorted by the longer side, then by the difference of the sides, alternately ascending and descending, so that
    # neighbours are similar where the longer side changes too. Ties keep the shuffled order: epochs differ.
    sides = lengths[shuffled]
    longest, lead = sides.max(1), sides[:, 0] - sides[:, -1]
    ranks = np.lexsort([np.where(longest % 2, lead, -lead), longest])
    order, longest = shuffled[ranks], longest[ranks]
    batches, start = [], 0
    while start < len(order):
        # Lengths ascend, so the last row of a batch is its longest, and the first says how many there can be at most.
        shortest = int(longest[start])
        fitting = longest[start : start + max(tokens // shortest, 1)] if shortest else longest[start:]
        rows = max(int(np.searchsorted(fitting * np.arange(1, len(fitting) + 1), tokens, side="right")), 1)
        batches.append(order[start : start + rows])
        start += rows
    return batches


def fixed_batches(lengths: NDArray[np.int64], tokens: int) -> Sequence[Indices]:
    """Batches of similar lengths for an evaluation: always the same ones, each sequence once."""
    return Bucketed(lengths, tokens, 0).of(FORMULA - 1).epoch(0)


class Shuffled(Order):
    """Batches of `rows` of `total` examples, each at most once per epoch; an incomplete last batch is dropped."""

    def __init__(self, total: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.total, self.rows = total, rows
        if not total:
            raise DataError("nothing to make batches of")

    def epoch(self, number: int) -> Sequence[Indices]:
        """Batches of numbers below `total`."""
        shuffled = self._permutation(self.total, self.random(number), number)
        full = max(self.total // self.rows, 1)
        return Computed(full, lambda n: shuffled[n * self.rows : (n + 1) * self.rows])


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

    def epoch(self, number: int) -> Sequence[Indices]:
        """Batches of block starts; an incomplete last batch is dropped."""
        random = self.random(number)
        count = (self.total - 1) // self.context
        slack = self.total - 1 - count * self.context
        # A new offset each epoch, so that block boundaries vary.
        phase = int(random.integers(0, self.context if count > 1 else slack + 1))
        count -= phase > slack
        shuffled = self._permutation(count, random, number)
        full = max(count // self.rows, 1)
        return Computed(full, lambda n: phase + self.context * shuffled[n * self.rows : (n + 1) * self.rows])


class Draws(Order):
    """Batches of (index, number): every index once per epoch, each with a number from which its row is generated.

    A row depends on nothing else, so that resuming and micro-batches do not change it. Numbers are COUNTED ones, but
    for older runs.
    """

    def __init__(self, places: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.places, self.rows = places, rows

    def epoch(self, number: int) -> Sequence[Indices]:
        """Batches (rows, 2); an incomplete last one is dropped."""
        random = self.random(number)
        shuffled = self._permutation(self.places, random, number)
        full = max(self.places // self.rows, 1)
        if self.by_formula:
            return Computed(full, lambda n: self._drawn(shuffled[n * self.rows : (n + 1) * self.rows], number))
        drawn = np.stack([shuffled[:], random.integers(0, COUNTED, self.places)], 1)
        return Computed(full, lambda n: drawn[n * self.rows : (n + 1) * self.rows])

    def _drawn(self, indices: Indices, epoch: int) -> Indices:
        """The indices with their numbers in this epoch."""
        hashed = hash64(indices.astype(np.uint64) + keys(1, self.seed, epoch, 0))
        return np.stack([indices, COUNTED + (hashed >> np.uint64(2)).astype(np.int64)], 1)


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
