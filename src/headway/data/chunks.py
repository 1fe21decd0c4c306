"""Splitting long text for the tokenizer library, whose time and memory grow faster than the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

CHUNK = 8192
# No tokenizer here merges across a single space between words.
_BETWEEN_WORDS = re.compile(r".*\S(?= \S)", re.DOTALL)
_SPACE = re.compile(r"[^\S\x1c-\x1f]")  # Unicode white space, without the four control characters that Python adds
_OVERLONG = re.compile(rf"(?<!\S)(\S{{{CHUNK // 2}}})\S+")  # tried once a word, not at each of its characters


def shorten_words(text: str) -> str:
    """The text with words truncated to half a chunk, which is enough to tell them apart."""
    return _OVERLONG.sub(r"\1", text) if len(text) > CHUNK // 2 else text


def chunks(text: str, *, within_words: bool = True) -> Iterator[tuple[str, bool]]:
    """The chunks of a text, and whether each continues the last word of the previous one.

    Cut between words if possible, else after CHUNK characters if `within_words`, else at the next white space.
    """
    start, inside = 0, False
    while len(text) - start > CHUNK:
        between = _BETWEEN_WORDS.match(text, start, start + CHUNK + 2)  # plus the lookahead
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
