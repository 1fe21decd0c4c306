"""Built-in `coreference`: sentences in which *it* refers to one of two nouns, decided by the meaning of a word.

"the animal did not cross the street because it was too tired" is about the animal, the same with "wide" about the
street. The antecedent, with its article, has the tags B-ANTECEDENT and I-ANTECEDENT. Both nouns are the antecedent
equally often, and stand first and second equally often, so that a position says nothing. A combination of two nouns and
the deciding word occurs in one split only.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from zlib import crc32

COUNTS = {"train": 8_000, "val": 500, "test": 1_000}
ANTECEDENT = "ANTECEDENT"
SHARES = 20  # of all combinations: one for val, two for test, the others for train


@dataclass(frozen=True, slots=True)
class Situation:
    """Who does what to what, and the words that can only be said of the one or of the other."""

    doers: tuple[str, ...]
    things: tuple[str, ...]
    active: tuple[str, ...]  # "{doer} did not cross {thing}"
    passive: tuple[str, ...]  # "{thing} was not crossed by {doer}"
    of_doer: tuple[str, ...]
    of_thing: tuple[str, ...]


ANIMALS = (
    "animal", "dog", "horse", "monkey", "cat", "goat", "cow", "sheep", "fox", "bear", "rabbit", "mouse", "donkey",
    "pig",
)  # fmt: skip
SITUATIONS = (
    Situation(
        doers=ANIMALS,
        things=("street", "road", "river", "bridge", "field", "lake", "valley", "square", "path", "canal"),
        active=("{} did not cross {}", "{} could not cross {}", "{} never crossed {}"),
        passive=("{} was not crossed by {}", "{} was never crossed by {}"),
        of_doer=("tired", "hungry", "lazy", "afraid", "sick", "sleepy", "weak", "old"),
        of_thing=("wide", "long", "wet", "steep", "icy", "crowded", "muddy", "flooded"),
    ),
    Situation(
        doers=ANIMALS,
        things=("banana", "apple", "bread", "cake", "soup", "melon", "cheese", "nut", "carrot", "pear"),
        active=("{} did not eat {}", "{} would not touch {}", "{} left {}"),
        passive=("{} was not eaten by {}", "{} was left by {}"),
        of_doer=("full", "tired", "nervous", "sick", "sleepy", "shy", "spoilt"),
        of_thing=("sour", "rotten", "bitter", "hot", "stale", "unripe", "salty"),
    ),
    Situation(
        doers=("trophy", "book", "lamp", "ball", "guitar", "statue", "chair", "violin", "clock", "vase"),
        things=("suitcase", "box", "bag", "drawer", "cupboard", "trunk", "basket", "crate", "shelf", "locker"),
        active=("{} did not fit into {}", "{} does not go into {}"),
        passive=("into {} we could not put {}", "{} would not take {}"),
        of_doer=("large", "big", "bulky", "tall", "huge"),
        of_thing=("small", "tiny", "narrow", "little", "cramped"),
    ),
    Situation(
        doers=("truck", "cart", "boat", "van", "wagon", "sledge", "ferry", "trailer"),
        things=("stone", "piano", "anchor", "engine", "log", "safe", "bell", "boulder"),
        active=("{} did not carry {}", "{} could not move {}"),
        passive=("{} was not carried by {}", "{} was not moved by {}"),
        of_doer=("weak", "old", "rusty", "damaged", "slow"),
        of_thing=("heavy", "massive", "huge", "solid", "bulky"),
    ),
)  # fmt: skip
REASONS = ("it was too {}", "it was much too {}", "it seemed too {}", "it was far too {}")
BEGINNINGS = ((), (), ("yesterday",), ("in", "the", "end"), ("that", "morning"), ("once", "again"))
ENDINGS = ((), (), ("today",), ("at", "night"), ("in", "winter"))

Sentence = tuple[tuple[str, ...], tuple[str, ...]]  # words, tags


@cache
def sentences(split: str) -> tuple[Sentence, ...]:
    """The sentences of a split, the same each time."""
    draw = random.Random(f"coreference 1 {split}")
    made: list[Sentence] = []
    while len(made) < COUNTS[split]:
        found = _sentence(draw, split, about_doer=len(made) % 2 == 0, passive=len(made) // 2 % 2 == 0)
        if found is not None:
            made.append(found)
    draw.shuffle(made)
    return tuple(made)


def _sentence(draw: random.Random, split: str, *, about_doer: bool, passive: bool) -> Sentence | None:
    """A sentence, or None where its combination belongs to another split."""
    where = draw.choice(SITUATIONS)
    doer, thing = draw.choice(where.doers), draw.choice(where.things)
    said = draw.choice(where.of_doer if about_doer else where.of_thing)
    if split_of(doer, thing, said) != split:
        return None
    nouns = (thing, doer) if passive else (doer, thing)
    clause = draw.choice(where.passive if passive else where.active).format(*(f"the {noun}" for noun in nouns)).split()
    reason = draw.choice(REASONS).format(said).split()
    beginning, ending = draw.choice(BEGINNINGS), draw.choice(ENDINGS)
    if draw.random() < 0.25:  # *it* before both nouns
        words = [*beginning, "because", *reason, ",", *clause]
    else:
        words = [*beginning, *clause, "because", *reason, *ending]
    at = words.index(doer if about_doer else thing)
    tags = ["O"] * len(words)
    tags[at - 1], tags[at] = f"B-{ANTECEDENT}", f"I-{ANTECEDENT}"
    return tuple(words), tuple(tags)


def split_of(doer: str, thing: str, said: str) -> str:
    """The split that a combination belongs to."""
    share = crc32(f"{doer} {thing} {said}".encode()) % SHARES
    return "val" if share == 0 else "test" if share <= 2 else "train"
