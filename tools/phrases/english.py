"""English forms: plurals, verb endings, comparatives, a and an."""

from __future__ import annotations

import re
from itertools import pairwise

DOUBLING = {"run", "swim", "cut", "begin", "forget", "get", "travel"}
PUNCTUATION = re.compile(r" ([.,?])")
AN_BEFORE = {"honest"}  # a silent h
A_BEFORE = {"university", "useful"}  # a spoken y


def plural(noun: str) -> str:
    """The regular plural of a noun."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    return re.sub(r"([^aeiou])y$", r"\1ie", noun) + "s"


def third_person(verb: str) -> str:
    """The form after he, she and it; the first word of a phrasal verb takes the ending."""
    head, particle = _split(verb)
    if head in ("can", "must"):
        return verb
    irregular = {"have": "has", "go": "goes"}
    return irregular.get(head, plural(head)) + particle


def past(verb: str) -> str:
    """The regular past tense and participle."""
    head, particle = _split(verb)
    head = re.sub(r"([^aeiou])y$", r"\1ie", _doubled(head))
    return (head + "d" if head.endswith("e") else head + "ed") + particle


def progressive(verb: str) -> str:
    """The form in -ing."""
    head, particle = _split(verb)
    head = _doubled(head)
    return (head[:-1] if head.endswith("e") and not head.endswith("ee") else head) + "ing" + particle


def degree(adjective: str, ending: str) -> str:
    """A short adjective with `er` or `est`."""
    stem = re.sub(r"([^aeiou])y$", r"\1i", adjective).removesuffix("e")
    if re.search(r"[^aeiou][aeiou][bdgnt]$", stem) and not adjective.endswith("e"):
        stem += stem[-1]
    return stem + ending


def join(text: str) -> str:
    """Close up the spaces and choose between a and an."""
    words = text.split()
    for index, (word, after) in enumerate(pairwise(words)):
        if word == "a" and after not in A_BEFORE and (after in AN_BEFORE or after[0] in "aeiou"):
            words[index] = "an"
    return PUNCTUATION.sub(r"\1", " ".join(words))


def _split(verb: str) -> tuple[str, str]:
    head, space, particle = verb.partition(" ")
    return head, space + particle


def _doubled(verb: str) -> str:
    return verb + verb[-1] if verb in DOUBLING else verb
