"""Long text in pieces for the tokenizer, which needs many times a text's size in memory and slows down with it."""

from __future__ import annotations

import re
from collections.abc import Iterator

CHUNK = 8192
# In front of a lone space between words no kind of tokenizer here joins anything.
_BETWEEN_WORDS = re.compile(r".*\S(?= \S)", re.DOTALL)
_SPACE = re.compile(r"[^\S\x1c-\x1f]")  # what Unicode calls white space; Python alone adds four control characters
_OVERLONG = re.compile(rf"(\S{{{CHUNK // 2}}})\S+")


def shorten_words(text: str) -> str:
    """The text with half a piece of each word that is longer: enough to tell words apart."""
    return _OVERLONG.sub(r"\1", text) if len(text) > CHUNK // 2 else text


def chunks(text: str, *, within_words: bool = True) -> Iterator[tuple[str, bool]]:
    """Pieces of a text, and whether each goes on inside the word in which the piece before it stopped.

    Cut between words where there is such a place, else after PIECE characters if `within_words`, else at the next
    white space, however far.
    """
    start, inside = 0, False
    while len(text) - start > CHUNK:
        between = _BETWEEN_WORDS.match(text, start, start + CHUNK + 2)  # two more to look ahead
        if between:
            cut, goes_on = between.end(), False
        elif within_words:
            cut = start + CHUNK
            goes_on = not (_SPACE.match(text[cut - 1]) or _SPACE.match(text[cut]))
        else:
            space = _SPACE.search(text, start + CHUNK)
            cut, goes_on = space.start() if space else len(text), False
        yield text[start:cut], inside
        start, inside = cut, goes_on
    if start < len(text):
        yield text[start:], inside
