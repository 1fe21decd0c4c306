"""Words as tokens: which token begins which word, in rows that a model can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.data.tokenizers import Characters, Tokenizer, TokenizerConfig
from headway.errors import ConfigError

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WordRow:
    """Tokens of a row, special ones included, and which of them begin its words."""

    ids: Ids  # (T,)
    begins: Ids  # (words,): places in `ids`
    sentence: int  # the number of the sentence
    first: int  # the number of its first word in that sentence


class WordAligner:
    """Divides sentences into rows of at most `length` tokens, at words."""

    def __init__(self, tokenizer: Tokenizer, config: TokenizerConfig, length: int) -> None:
        self.tokenizer = tokenizer
        self.before, self.after = (list(marks) for marks in tokenizer.around)
        self.room = length - len(self.before) - len(self.after)
        if self.room < 1:
            raise ConfigError(f"task.length={length} leaves no room for a word")
        # Inside a text a space comes first, which byte-level tokens have in them; a vocabulary of characters may not.
        self.space = "" if isinstance(config, Characters) else " "

    def rows(self, sentences: Sequence[Sequence[str]]) -> Iterator[WordRow]:
        """The rows of sentences, in order. A word without a token is unknown; one that alone is too long is cut."""
        for number, words in enumerate(sentences):
            ids: list[int] = []
            begins: list[int] = []
            first = 0
            pieces = self.tokenizer.encode_batch([f"{self.space}{word}" for word in words])
            for place, piece in enumerate(pieces):
                piece = (piece or [self.tokenizer.unk])[: self.room]
                if ids and len(ids) + len(piece) > self.room:
                    yield self._row(ids, begins, number, first)
                    ids, begins, first = [], [], place
                begins.append(len(self.before) + len(ids))
                ids += piece
            if ids:
                yield self._row(ids, begins, number, first)

    def _row(self, ids: list[int], begins: list[int], sentence: int, first: int) -> WordRow:
        whole = np.asarray([*self.before, *ids, *self.after], np.int64)
        return WordRow(whole, np.asarray(begins, np.int64), sentence, first)
