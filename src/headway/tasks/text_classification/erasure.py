"""Texts with one word left out, to measure how much each word counts (erasure, Li et al. 2016)."""

from __future__ import annotations

import re
from collections.abc import Sequence

WORD, CHARACTER = re.compile(r"\S+"), re.compile(r"\S")


def erased(texts: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Each word of a text, or of a pair of texts, with what remains without it.

    The words of a text are what stands between spaces; of a text that is one word, its characters, as in languages that
    are written without spaces. A text's only character has nothing that remains, and is left out.
    """
    found = []
    for at, text in enumerate(texts):
        words = list(WORD.finditer(text))
        if len(words) == 1:
            words = list(CHARACTER.finditer(text))
        if len(words) == 1:
            continue
        for word in words:
            after = text[word.end() :]
            remains = (
                text[: word.start()] + (after.lstrip() if word.start() == 0 else after.removeprefix(" "))
            ).rstrip()
            found.append((word.group(), (*texts[:at], remains, *texts[at + 1 :])))
    return found
