"""Train, val, test and unseen: `unseen` has combinations of words that occur in no other split."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from random import Random

from tools.phrases.grammar import Link
from tools.phrases.pairs import EXAMPLE, Pair, generate, words
from tools.phrases.words import ADJECTIVES

SEED = 2018
HELD_OUT = 1000  # pairs in each of val, test and unseen
MARGIN = 12  # least occurrences in all pairs of a word that val, test or unseen may contain: train keeps enough of them
COMBINABLE = {"noun", "adj", "verb"}
# These also occur in other senses (he is cold, ten years old), where no link is recorded.
ELSEWHERE = {ADJECTIVES[name].key for name in ("cold", "hot", "dark", "old")}
LARGEST_SHARE = 0.1  # of a word's occurrences that one held combination may take
MAX_PER_WORD = 4  # held combinations of one word: train needs its other combinations


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
    """The splits: combinations for `unseen` are held out first, then val and test are drawn from the other pairs."""
    pairs = list(generate())
    random = Random(SEED)
    common = _common_words(pairs)
    held = _held_links(pairs, random)
    unseen = [pair for pair in pairs if pair.links & held and _within(pair, common)]
    partners = _partners(held)
    rest = [pair for pair in pairs if not _together(pair, partners)]
    random.shuffle(rest)
    random.shuffle(unseen)
    unseen.sort(key=lambda pair: pair.english != EXAMPLE.en)  # a stable sort: the example comes first
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
    """Links to hold out: enough pairs to fill `unseen`, at most MAX_PER_WORD links for one word."""
    count = Counter(link for pair in pairs for link in sorted(pair.links) if _combinable(link))
    uses = Counter(key for pair in pairs for key in pair.lemmas)
    links = sorted(count)
    random.shuffle(links)
    held, per_word, found = set(EXAMPLE.links), Counter[str](), 0
    for link in links:
        if found >= 1.3 * HELD_OUT:
            break
        if all(per_word[key] < MAX_PER_WORD and count[link] < LARGEST_SHARE * uses[key] for key in link):
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
    """Whether both words of a held link occur in the pair, linked or not."""
    return any(not pair.lemmas.isdisjoint(partners[key]) for key in pair.lemmas if key in partners)


def _common_words(pairs: list[Pair]) -> tuple[set[str], set[str]]:
    """The English and the French words that occur often enough to be held out."""
    english = Counter(word for pair in pairs for word in words(pair.english))
    french = Counter(word for pair in pairs for word in words(pair.french))
    return {word for word, n in english.items() if n >= MARGIN}, {word for word, n in french.items() if n >= MARGIN}


def _within(pair: Pair, common: tuple[set[str], set[str]]) -> bool:
    return common[0].issuperset(words(pair.english)) and common[1].issuperset(words(pair.french))
