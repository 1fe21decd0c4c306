"""Splitting a text that is too long for a model: at sentence ends, else between words, else within a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from headway.errors import DataError
from headway.limits import expect_within

Measure = Callable[[Sequence[str]], list[int]]  # the number of tokens of each text

# After . ! ? … and a closing quote or bracket, before white space; in Chinese and Japanese without white space.
_SENTENCE = re.compile(r"""(?<=[.!?…])\s+|(?<=[.!?…]["'»”’)\]])\s+|(?<=[。！？])""")


def split_long(text: str, measure: Measure, most: int, where: str = "text") -> list[str]:
    """The parts of a text, each of at most `most` tokens, filled greedily.

    Raises DataError, naming the text as `where`, for a word that is too long to be split into parts.
    """
    return list(_packed(_pieces([text], measure, max(most, 1), 0, where), max(most, 1)))


def _pieces(texts: list[str], measure: Measure, most: int, level: int, where: str) -> Iterator[tuple[str, int]]:
    """Pieces that fit, with their sizes; others are split at the next finer level."""
    for text, size in zip(texts, measure(texts), strict=True):
        if size <= most or len(text) < 2:
            yield text, size
        elif level < 2:
            finer = _SENTENCE.split(text) if level == 0 else text.split()
            yield from _pieces([part for part in finer if part.strip()], measure, most, level + 1, where)
        else:
            expect_within("word", len(text), f"{where}: a word", DataError)
            half = len(text) // 2
            yield from _pieces([text[:half], text[half:]], measure, most, level, where)


def _packed(pieces: Iterator[tuple[str, int]], most: int) -> Iterator[str]:
    """Join neighbours with a space while they fit; the space counts as a token."""
    held: list[str] = []
    room = most
    for text, size in pieces:
        if held and size + 1 > room:
            yield " ".join(held)
            held, room = [], most
        room -= size + (1 if held else 0)
        held.append(text)
    if held:
        yield " ".join(held)
