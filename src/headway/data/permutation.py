"""A random permutation by formula: any of its places on its own, without a table.

A number below N is written with two digits, x = high · b + low, where a · b is little more than N. Six rounds add to
each digit in turn a hash of the other one and of a key (a Feistel network; with digits of two sizes: Black and Rogaway
2002, section 5). Each round can be undone, so all of them are a permutation of the numbers below a · b. A result that
is not below N goes through the rounds again until it is (cycle walking, ibid. section 4), which keeps the permutation
one of the numbers below N.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

ROUNDS = 6
SMALL, SMALL_ROUNDS = 1000, 24  # with few numbers six rounds are biased, which 20,000 draws of 5 or 7 show

Item = TypeVar("Item")


def hash64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number: the finaliser of SplitMix64 (Steele, Lea and Flood 2014, figure 15), a bijection."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def keys(count: int, *path: int) -> NDArray[np.uint64]:
    """Independent keys for a path of numbers, such as (seed, epoch)."""
    seeded = np.random.SeedSequence([len(path), *path])  # without its length, (1,) and (1, 0) would seed alike
    return seeded.generate_state(count, np.uint64).astype(np.uint64)


class Permutation:
    """A permutation of the numbers below `size`, drawn by a path of numbers such as (seed, epoch)."""

    def __init__(self, size: int, *path: int) -> None:
        self.size = size
        self._a = math.isqrt(max(size - 1, 0)) + 1
        self._b = -(-size // self._a)
        self._keys = keys(ROUNDS if size >= SMALL else SMALL_ROUNDS, *path)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, places: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers at these places, which are below `size`."""
        if isinstance(places, slice):
            places = np.arange(*places.indices(self.size))
        found = self._once(places.astype(np.uint64))
        outside = np.flatnonzero(found >= self.size)
        while len(outside):
            found[outside] = self._once(found[outside])
            outside = outside[found[outside] >= self.size]
        return found.astype(np.int64)

    def _once(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        a, b = np.uint64(self._a), np.uint64(self._b)
        high, low = np.divmod(x, b)
        for n in range(0, len(self._keys), 2):
            high = (high + hash64(low + self._keys[n]) % a) % a
            low = (low + hash64(high + self._keys[n + 1]) % b) % b
        return high * b + low


@dataclass(frozen=True)
class Computed(Sequence[Item]):
    """A sequence whose items are computed when they are asked for."""

    size: int
    item: Callable[[int], Item]

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, n: int) -> Item: ...
    @overload
    def __getitem__(self, n: slice) -> list[Item]: ...
    def __getitem__(self, n: int | slice) -> Item | list[Item]:
        if isinstance(n, slice):
            return [self.item(each) for each in range(*n.indices(self.size))]
        return self.item(range(self.size)[n])
