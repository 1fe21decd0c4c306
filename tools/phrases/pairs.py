"""All sentence pairs: about the same number from each template, one French target for each English source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tools.phrases import english, french
from tools.phrases.draw import Draw
from tools.phrases.grammar import Link, Phrase, noun_phrase
from tools.phrases.templates import TEMPLATES
from tools.phrases.words import ADJECTIVES, NOUNS

SEED = 2017
PER_TEMPLATE = 445
ATTEMPTS = 4  # draws per pair before a template with few distinct phrases stops short of PER_TEMPLATE
MAX_WORDS = 14  # in a sentence, on either side
EXAMPLE = noun_phrase(NOUNS["puppy"], "a", adjective=ADJECTIVES["cute"])  # always included


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence in both languages, with its template, lemmas and links between lemmas."""

    english: str
    french: str
    template: str
    lemmas: frozenset[str]
    links: frozenset[Link]


@cache
def generate() -> tuple[Pair, ...]:
    """Every pair, template by template; deterministic.

    Raises AssertionError when two templates translate one English sentence differently.
    """
    draw = Draw(SEED)
    example = _pair(EXAMPLE, "nominal.indefinite")
    found = {example.english: example}
    for name, template in TEMPLATES.items():
        before = len(found)
        for _ in range(ATTEMPTS * PER_TEMPLATE):
            phrase = template(draw)
            if phrase is None:
                continue
            pair = _pair(phrase, name)
            if _fits(pair):
                kept = found.setdefault(pair.english, pair)
                assert kept.french == pair.french, f"{pair.english!r} is both {kept.french!r} and {pair.french!r}"
            if len(found) - before >= PER_TEMPLATE:
                break
    return tuple(found.values())


def _pair(phrase: Phrase, template: str) -> Pair:
    return Pair(english.join(phrase.en), french.join(phrase.fr), template, phrase.lemmas, phrase.links)


def _fits(pair: Pair) -> bool:
    """Whether both sides have 2 to MAX_WORDS words and no English word of six letters or more occurs twice."""
    english, french = words(pair.english), words(pair.french)
    long = [word for word in english if len(word) > 5]
    return 2 <= len(english) <= MAX_WORDS and 2 <= len(french) <= MAX_WORDS and len(long) == len(set(long))


def words(text: str) -> list[str]:
    """The words of a sentence, without its punctuation."""
    return [word for word in (token.strip(".?,") for token in text.split()) if word]
