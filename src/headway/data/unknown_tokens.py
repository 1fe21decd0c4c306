"""Tokens that a vocabulary does not hold: counted wherever a text is encoded, and reported once, at the end.

A model gives an output for a text of unknown tokens, too, but that output is meaningless. Every command on
a run and every method of a `Run` that encodes texts does so in a `unknown_told` block; `Tokenizer.encode_batch` counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headway.counts import counted

if TYPE_CHECKING:
    from headway.data.token_stream import AnyIds
    from headway.data.tokenizers import Tokenizer


@dataclass(slots=True)
class UnknownTally:
    """What was encoded so far: tokens, unknown ones, lines that have some, and how the vocabulary spells them."""

    tokens: int = 0
    unknown: int = 0
    lines: int = 0
    name: str = ""

    def note(self) -> str:
        """What was not understood, in one line."""
        tokens = counted(self.unknown, "token")
        lines = f" in {counted(self.lines, 'line')}" if self.lines else ""
        verb = "are" if self.unknown != 1 else "is"
        share = f"{self.unknown / self.tokens:.1%} of all"
        return f"{tokens}{lines} {verb} not in the vocabulary: read as {self.name} ({share})"


_current: ContextVar[UnknownTally | None] = ContextVar("unknown_tokens", default=None)


@contextlib.contextmanager
def unknown_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell of the unknown tokens met in this block, when it ends without an error; inside another one, that tells."""
    if _current.get() is not None:
        yield
        return
    tally = UnknownTally()
    before = _current.set(tally)
    try:
        yield
    finally:
        _current.reset(before)
    if tally.unknown:
        tell(tally.note())


@contextlib.contextmanager
def tallied() -> Iterator[UnknownTally]:
    """The tokens of what is encoded in this block, which tells of none of them."""
    tally = UnknownTally()
    before = _current.set(tally)
    try:
        yield tally
    finally:
        _current.reset(before)


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """Do not count what is encoded in this block: the same text is encoded again elsewhere, or it is not the user's."""
    with tallied():
        yield


def count_lines(tokenizer: Tokenizer, lines: Sequence[Sequence[int]]) -> None:
    """Count the tokens of lines that were encoded."""
    tally, unknown = _current.get(), tokenizer.unknown
    if tally is None:
        return
    tally.tokens += sum(map(len, lines))
    if unknown is None:
        return
    for ids in lines:
        found = ids.count(unknown)
        if found:
            tally.unknown, tally.lines, tally.name = tally.unknown + found, tally.lines + 1, tokenizer.token(unknown)


def count_stored(tokenizer: Tokenizer, ids: AnyIds) -> None:
    """Count the tokens of a split, which may have been encoded by an earlier command and kept."""
    tally, unknown = _current.get(), tokenizer.unknown
    if tally is None or unknown is None:
        return
    found = int(np.count_nonzero(ids == unknown))
    tally.tokens += len(ids)
    if found:
        tally.unknown, tally.name = tally.unknown + found, tokenizer.token(unknown)
