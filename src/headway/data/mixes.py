"""Several prepared texts as one, by weights: of `a:0.7,b:0.3` seven rows in ten are from a.

Rows are numbered on and on. A window of 10,000 of them has an exact number of each text's, at places that a permutation
draws, so that what a row is follows from its number alone: nothing is kept, and a resumed run, or any number of ranks,
reads the same. Each text goes through epochs of its own, in which each of its blocks is read once.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headway.counts import counted
from headway.data.batching import Indices, Order
from headway.data.permutation import Computed, Permutation
from headway.data.prepared_store import PartStream
from headway.errors import ConfigError, DataError

MIXED_ROWS = 10_000  # of a window: the finest share is one of them
_WEIGHTED = re.compile(r"(.+):\s*([-+]?(?:[\d.]+(?:e[-+]?\d+)?|inf|nan))\s*", re.IGNORECASE)
EXAMPLE = "a mix is PATH:WEIGHT,PATH:WEIGHT,… such as a:0.7,b:0.3"


def weights_of(spec: str) -> dict[str, float]:
    """The paths of a mix with their weights, which sum to 1; {} for a spec of anything else. Raises ConfigError."""
    given = spec.split(",")
    found = [_WEIGHTED.fullmatch(each) for each in given]
    if len(given) < 2 or not any(found) or os.path.lexists(spec):
        return {}
    weights: dict[str, float] = {}
    for text, match in zip(given, found, strict=True):
        if match is None:
            raise ConfigError(f"--data {spec}: {text!r} has no weight; {EXAMPLE}")
        path, weight = match[1].strip(), _number(match[2])
        if not 0 <= weight < math.inf:
            raise ConfigError(f"--data {spec}: the weight of {path} is {match[2]}, allowed: 0 and above")
        if path in weights:
            raise ConfigError(f"--data {spec}: {path} is there twice")
        weights[path] = weight
    total = math.fsum(weights.values())
    if not total:
        raise ConfigError(f"--data {spec}: the weights sum to 0, expected more; {EXAMPLE}")
    return {path: weight / total for path, weight in weights.items() if weight}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


@dataclass(frozen=True, slots=True)
class MixedText:
    """One of the texts of a mix."""

    name: str
    weight: float
    splits: Mapping[str, PartStream]
    digests: Mapping[str, str]


def val_split(name: str) -> str:
    """The split with the validation text of one corpus."""
    return f"val-{name}"


class Mix:
    """Texts with weights that sum to 1."""

    def __init__(self, corpora: Sequence[MixedText]) -> None:
        self.corpora = tuple(corpora)

    @cached_property
    def shares(self) -> NDArray[np.int64]:
        """The rows of each text in a window. Raises ConfigError for a weight that is too small for one."""
        exact = MIXED_ROWS * np.asarray([each.weight for each in self.corpora])
        shares: NDArray[np.int64] = np.floor(exact).astype(np.int64)
        last = np.argsort(-(exact - shares), kind="stable")[: MIXED_ROWS - int(shares.sum())]
        shares[last] += 1  # the largest remainders
        for corpus, share in zip(self.corpora, shares.tolist(), strict=True):
            if not share:
                raise ConfigError(
                    f"{corpus.name} has {corpus.weight:.2g} of the mix, allowed: {1 / MIXED_ROWS:g} and above, or 0"
                )
        return shares

    def order(self, context: int, rows: int, seed: int) -> MixedBlocks:
        """The order of training. Raises DataError for a text shorter than a block."""
        totals = [corpus.splits["train"].total for corpus in self.corpora]
        for corpus, total in zip(self.corpora, totals, strict=True):
            if total < context + 1:
                counts = f"{counted(total, 'token')}, a block of context {context} needs {context + 1}"
                raise DataError(f"{corpus.name} has {counts}")
        return MixedBlocks(totals, self.shares, context, rows, seed)

    @property
    def described(self) -> str:
        """For people: each text with its share of the rows and its tokens."""
        return ", ".join(
            f"{each.name} {share / MIXED_ROWS:.2%} of the rows ({counted(each.splits['train'].total, 'token')})"
            for each, share in zip(self.corpora, self.shares.tolist(), strict=True)
        )

    @property
    def splits(self) -> dict[str, PartStream]:
        """The splits that all texts have, joined, and the validation split of each."""
        common = [name for name in self.corpora[0].splits if all(name in each.splits for each in self.corpora)]
        joined = {
            name: PartStream([part for corpus in self.corpora for part in corpus.splits[name].parts]) for name in common
        }
        return joined | {val_split(corpus.name): corpus.splits["val"] for corpus in self.corpora}

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each joined split; the shares decide what is trained on as well."""
        found = {}
        for name in self.corpora[0].digests:
            known = [corpus.digests.get(name) for corpus in self.corpora]
            if all(known):
                shares = self.shares.tolist() if name == "train" else []
                found[name] = hashlib.sha256(repr((shares, known)).encode()).hexdigest()
        return found


class MixedBlocks(Order):
    """Blocks of several texts that lie one behind the other, by their shares; an epoch has as many as all texts have.

    Row g of the training is row g of its window, and the next of its text: (window, place) -> text and place in it ->
    block of an epoch of that text.
    """

    def __init__(self, totals: Sequence[int], shares: NDArray[np.int64], context: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.totals, self.shares, self.context, self.rows = list(totals), shares, context, rows
        self.starts = np.concatenate([[0], np.cumsum(totals)])
        self.places = np.concatenate([[0], np.cumsum(shares)])
        # One less than fits: each epoch of a text begins at another place within a block.
        self.blocks = [max((total - 1) // context - 1, 1) for total in totals]

    @property
    def full(self) -> bool:
        """Every batch has `rows` rows."""
        return True

    def batches(self, number: int = 0) -> int:
        """How many batches an epoch has."""
        return max(sum(self.blocks) // self.rows, 1)

    def epoch(self, number: int) -> Sequence[Indices]:
        """Batches of block starts."""
        count = self.batches()
        return Computed(count, lambda n: self.block_starts((number * count + n) * self.rows + np.arange(self.rows)))

    def block_starts(self, rows: NDArray[np.int64]) -> Indices:
        """Where the blocks of these rows begin in the joined texts."""
        corpora, numbers = self.numbered(rows)
        found = np.empty_like(rows)
        for corpus in np.unique(corpora).tolist():
            own = np.flatnonzero(corpora == corpus)
            epochs, places = np.divmod(numbers[own], self.blocks[corpus])
            for epoch in np.unique(epochs).tolist():
                chosen = own[epochs == epoch]
                order = Permutation(self.blocks[corpus], self.seed, corpus, epoch)
                found[chosen] = self._phase(corpus, epoch) + self.context * order[places[epochs == epoch]]
        return found

    def numbered(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The text of each row, and its number among the rows of that text."""
        windows, places = np.divmod(rows, MIXED_ROWS)
        slots = np.empty_like(rows)
        for window in np.unique(windows).tolist():
            chosen = windows == window
            slots[chosen] = Permutation(MIXED_ROWS, self.seed, window)[places[chosen]]
        corpora = np.searchsorted(self.places, slots, side="right") - 1
        return corpora, windows * self.shares[corpora] + slots - self.places[corpora]

    def epochs(self, rows: int) -> list[float]:
        """How often each text has been read after a number of rows."""
        return [
            rows * share / MIXED_ROWS / blocks for share, blocks in zip(self.shares.tolist(), self.blocks, strict=True)
        ]

    def _phase(self, corpus: int, epoch: int) -> int:
        """Where the first block of an epoch of a text begins."""
        spare = self.totals[corpus] - 1 - self.blocks[corpus] * self.context
        return int(self.starts[corpus] + np.random.default_rng([self.seed, corpus, epoch]).integers(0, spare + 1))
