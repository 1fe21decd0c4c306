"""Built-in `needle`: long documents whose label depends on two short facts far from each other.

One gives a price, as a word, the other the coins in a purse, as a numeral; the label is whether they are enough. One is
in the second eighth of a document, the other in the second last. From one fact alone the accuracy is at most 7/9, from
none 1/2. All other sentences occur equally often, so that they are uninformative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.data.token_store import fingerprint
from headway.errors import DataError

CLASSES = ("enough", "short")  # of documents with even and with odd numbers
PRICES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PURSES = ("1", "2", "3", "4", "5", "6", "7", "8", "9")
STATEMENTS = (
    ("grass", "green"), ("sky", "blue"), ("snow", "white"), ("night", "dark"), ("stone", "hard"), ("river", "wide"),
    ("road", "long"), ("house", "old"), ("bread", "warm"), ("winter", "cold"), ("honey", "sweet"), ("lemon", "sour"),
    ("forest", "deep"), ("mountain", "high"), ("feather", "light"), ("iron", "heavy"), ("cat", "quiet"),
    ("storm", "loud"), ("glass", "clear"), ("summer", "short"),
)  # fmt: skip
SENTENCE = 6  # words, including the full stop
SHORTEST = 127  # words of the shortest training documents, before rounding to whole rounds
COUNTS = {"train": 65_536, "val": 512, "test": 1_024}
FILLER = tuple(("today", "the", noun, "is", what, ".") for noun, what in STATEMENTS)
COSTS = tuple(("the", "price", "is", number, "coins", ".") for number in PRICES)
HOLDS = tuple(("the", "purse", "holds", number, "coins", ".") for number in PURSES)
ROUND = SENTENCE * len(FILLER)  # words; every document consists of whole rounds, at least one
WORDS = tuple(sorted({word for sentence in (*FILLER, *COSTS, *HOLDS) for word in sentence}))


@dataclass(frozen=True, slots=True)
class Needle:
    """A split: documents of up to `words` words, generated on demand.

    A document is a function of the split's name, `words` and its number.
    """

    split: str
    words: int

    def __post_init__(self) -> None:
        if self.words < ROUND:
            raise DataError(f"needle: documents of up to {self.words} words, allowed: {ROUND} and above")

    def __len__(self) -> int:
        return COUNTS[self.split]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each document (N,)."""
        return np.arange(len(self)) % len(CLASSES)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words of each document (N,): at least three quarters of the longest; in train also shorter ones.

        Their number is inversely proportional to the squared length, so that each octave of lengths has about as many
        words in total. Long documents alone give almost no learning signal; short ones show what to attend to.
        """
        least = SHORTEST if self.split == "train" else self.words * 3 // 4
        share = self._random(len(self)).random(len(self))
        words = 1 / (share / self.words + (1 - share) / least)
        return np.maximum(words.astype(np.int64) // ROUND, 1) * ROUND

    @property
    def content(self) -> str:
        """A digest of the split."""
        return fingerprint(["needle 1", self.split, str(self.words), str(len(self)), *WORDS])

    def document(self, number: int, words: int) -> NDArray[np.int64]:
        """Document `number`, `words` long, as indices into WORDS."""
        random = self._random(number)
        rounds = random.permuted(np.tile(np.arange(len(FILLER)), (words // ROUND, 1)), axis=1)
        sentences: NDArray[np.int64] = _FILLER[rounds.ravel()]
        low, high = np.sort(random.choice(len(PRICES), 2, replace=False)).tolist()
        cost, held = (low, high) if number % len(CLASSES) == 0 else (high, low)
        eighth = len(sentences) // 8
        places = eighth * np.asarray([1, 6]) + random.integers(eighth, size=2)
        sentences[random.permutation(places)] = _COSTS[cost], _HOLDS[held]
        return sentences.ravel()

    def _random(self, number: int) -> np.random.Generator:
        return np.random.default_rng([*self.split.encode(), self.words, number])


def text(document: NDArray[np.int64]) -> str:
    """A document as text."""
    return " ".join(WORDS[word] for word in document.tolist())


_PLACE = {word: place for place, word in enumerate(WORDS)}
_FILLER, _COSTS, _HOLDS = (
    np.asarray([[_PLACE[word] for word in sentence] for sentence in kind]) for kind in (FILLER, COSTS, HOLDS)
)
