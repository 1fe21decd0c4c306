"""How a text, or a pair of texts, becomes the tokens and segments of one input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.data.batching import padded
from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError, DataError

PAIR = "\t"  # between the two texts of a pair in one line
Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InputLayout:
    """Special tokens around one text, or around and between two: `<s>` a `</s>` b `</s>`, BERT's [CLS] a [SEP] b [SEP].

    What stands between them is the tokenizer's: an imported RoBERTa reads `<s>` a `</s></s>` b `</s>`.
    Segment 0 ends with the special tokens after the first text. What is too long is cut at its end; of a pair the
    longer text first, to the same lengths as the tokenizers library with `longest_first`.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    pad: int  # fills up the rows of a batch; no model reads it
    length: int  # most tokens, the special ones included
    pairs: bool

    @classmethod
    def of(cls, tokenizer: Tokenizer, length: int, *, pairs: bool) -> InputLayout:
        """The layout of a tokenizer's special tokens. Raises ConfigError for a length without room for a text."""
        before, after = tokenizer.around
        between = tokenizer.between if pairs else ()
        pad = tokenizer.pad if tokenizer.marks is None or tokenizer.marks.pad is not None else 0
        made = cls(before, between, after, pad, length, pairs)
        if made.room < 1 + pairs:
            raise ConfigError(f"task.length={length} leaves no room for {'a pair of texts' if pairs else 'a text'}")
        return made

    @property
    def room(self) -> int:
        """Tokens of the texts that fit."""
        return self.length - len(self.before) - len(self.between) - len(self.after)

    def padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Rows of ids as (B, T), and their lengths (B,)."""
        tokens, lengths = padded([np.asarray(row, np.uint32) for row in rows], self.pad)
        return torch.from_numpy(tokens), torch.from_numpy(lengths)

    def padded_segments(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Rows of segments as (B, T); padding is of segment 0, as the id that pads tokens may be no segment."""
        return torch.from_numpy(padded([np.asarray(row, np.uint32) for row in rows], 0)[0])

    def split(self, line: str) -> tuple[str, ...]:
        """The text of a line, or the two texts of a pair, separated by a tab. Raises DataError."""
        texts = tuple(line.split(PAIR)) if self.pairs else (line,)
        if len(texts) != 1 + self.pairs:
            raise DataError(f"{len(texts)} text, expected a pair: two texts with a tab between them")
        if not all(map(str.strip, texts)):
            raise DataError("the text is empty: a classifier needs at least one token")
        return texts

    def kept(self, first: Lengths, second: Lengths | None = None) -> tuple[Lengths, Lengths | None]:
        """How many tokens of texts of these lengths (N,) are kept."""
        if second is None:
            return np.minimum(first, self.room), None
        short, long = np.minimum(first, second), np.maximum(first, second)
        long = np.where(short > self.room, short, np.minimum(long, np.maximum(short, self.room - short)))
        over = short + long > self.room
        short = np.where(over, self.room // 2, short)
        long = np.where(over, self.room // 2 + self.room % 2, long)
        swapped = first > second
        return np.where(swapped, long, short), np.where(swapped, short, long)

    def lengths(self, first: Lengths, second: Lengths | None = None) -> Lengths:
        """Tokens of the inputs that texts of these lengths (N,) become."""
        kept, others = self.kept(first, second)
        special = len(self.before) + len(self.between) + len(self.after)
        return kept + special + (0 if others is None else others)

    def arrange(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """The tokens of an input and their segments."""
        sizes = np.asarray([len(first)]), None if second is None else np.asarray([len(second)])
        kept, others = self.kept(*sizes)
        one = [*self.before, *list(first)[: int(kept[0])]]
        if second is None or others is None:
            ids = [*one, *self.after]
            return ids, [0] * len(ids)
        one += self.between
        two = [*list(second)[: int(others[0])], *self.after]
        return [*one, *two], [0] * len(one) + [1] * len(two)
