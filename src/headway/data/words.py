"""The words of a text, and where they stand."""

from __future__ import annotations

import re
from typing import Literal

WordKind = Literal["punctuation", "spaces", "characters"]
_PATTERNS: dict[str, re.Pattern[str]] = {
    "punctuation": re.compile(r"\w+(?:['’.\-]\w+)*|[^\w\s]"),  # inside a word it stays: don't, 3.5, well-known
    "spaces": re.compile(r"\S+"),
    "characters": re.compile(r"\S"),
}


def word_places(text: str, how: WordKind) -> list[tuple[int, int]]:
    """Where the words of a text begin and end: between spaces, with punctuation as own words, or each character."""
    return [found.span() for found in _PATTERNS[how].finditer(text)]


def divided(text: str, how: WordKind) -> list[str]:
    """The words of a text."""
    return [text[begin:end] for begin, end in word_places(text, how)]
