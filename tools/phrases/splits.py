"""Train, val, test and unseen: the last one holds word combinations that occur in no other split."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from random import Random

from tools.phrases.grammar import Link
from tools.phrases.pairs import HERALD, Pair, generate, words
from tools.phrases.words import ADJECTIVES

SEED = 2018
HELD_OUT = 1000  # pairs in each of val, test and unseen
MARGIN = 12  # a held-out word occurs this often in the whole data, so that train keeps enough of it
COMBINABLE = {"noun", "adj", "verb"}
# Said in other senses too (he is cold, ten years old), where a held combination would show after all.
ELSEWHERE = {ADJECTIVES[name].key for name in ("cold", "hot", "dark", "old")}
LARGEST_SHARE = 0.1  # of a word's uses that one held combination may take: eyes are nearly always had
MOST_PER_WORD = 4  # held combinations of one word: it must be learnt from the others


@dataclass(frozen=True, slots=True)
class Splits:
    """The four splits and the links that only `unseen` has."""

    train: tuple[Pair, ...]
    val: tuple[Pair, ...]
    test: tuple[Pair, ...]
    unseen: tuple[Pair, ...]
    held: frozenset[Link]


@cache
def split() -> Splits:
    """Hold out the combinations first, then draw val and test from what is left."""
    pairs = list(generate())
    random = Random(SEED)
    common = _common_words(pairs)
    held = _held_links(pairs, random)
    unseen = [pair for pair in pairs if pair.links & held and _within(pair, common)]
    partners = _partners(held)
    rest = [pair for pair in pairs if not _together(pair, partners)]
    random.shuffle(rest)
    random.shuffle(unseen)
    unseen.sort(key=lambda pair: pair.english != HERALD.en)  # stable: the library's own example comes first
    chosen = [pair for pair in rest if _within(pair, common)][: 2 * HELD_OUT]
    taken = {pair.english for pair in chosen}
    return Splits(
        train=tuple(pair for pair in rest if pair.english not in taken),
        val=tuple(chosen[:HELD_OUT]),
        test=tuple(chosen[HELD_OUT:]),
        unseen=tuple(unseen[:HELD_OUT]),
        held=held,
    )


def _held_links(pairs: list[Pair], random: Random) -> frozenset[Link]:
    """Links to hold out, enough of them to fill `unseen`, a few for any one word."""
    count = Counter(link for pair in pairs for link in sorted(pair.links) if _combinable(link))
    uses = Counter(key for pair in pairs for key in pair.lemmas)
    links = sorted(count)
    random.shuffle(links)
    held, per_word, found = set(HERALD.links), Counter[str](), 0
    for link in links:
        if found >= 1.3 * HELD_OUT:
            break
        if all(per_word[key] < MOST_PER_WORD and count[link] < LARGEST_SHARE * uses[key] for key in link):
            held.add(link)
            per_word.update(link)
            found += count[link]
    return frozenset(held)


def _combinable(link: Link) -> bool:
    return all(key.partition(":")[0] in COMBINABLE and key not in ELSEWHERE for key in link)


def _partners(links: Iterable[Link]) -> dict[str, set[str]]:
    partners: dict[str, set[str]] = defaultdict(set)
    for one, other in links:
        partners[one].add(other)
    return partners


def _together(pair: Pair, partners: dict[str, set[str]]) -> bool:
    """Whether two words of a held link occur in the pair, linked or not: not even that is trained on."""
    return any(not pair.lemmas.isdisjoint(partners[key]) for key in pair.lemmas if key in partners)


def _common_words(pairs: list[Pair]) -> tuple[set[str], set[str]]:
    """The English and the French words that occur often enough to be held out."""
    english = Counter(word for pair in pairs for word in words(pair.english))
    french = Counter(word for pair in pairs for word in words(pair.french))
    return {word for word, n in english.items() if n >= MARGIN}, {word for word, n in french.items() if n >= MARGIN}


def _within(pair: Pair, common: tuple[set[str], set[str]]) -> bool:
    return common[0].issuperset(words(pair.english)) and common[1].issuperset(words(pair.french))
