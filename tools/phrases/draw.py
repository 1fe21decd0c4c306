"""Random choice of words that prefers the least used ones, so that all occur about equally often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import TypeVar

from tools.phrases import lexicon, words
from tools.phrases.grammar import EMPTY, PRONOUNS, Nominal, Phrase, Pronoun, noun_phrase, say, word
from tools.phrases.words import ABSOLUTE, Adjective, Adverb, Noun, Verb, Word

W = TypeVar("W", bound=Word)
T = TypeVar("T")
POSSESSIVES = ("my", "your", "his", "her", "our", "their")
SAME_PERSON = {"i": ("i", "we"), "we": ("i", "we"), "you": ("you",)}
SPOUSES = {noun: tuple(owners.split()) for noun, owners in lexicon.SPOUSES.items()}
CANDIDATES = 4  # drawn for each choice; the least used of them is taken


class Draw:
    """The random choices of the templates, with a count of the words used so far."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.used: Counter[str] = Counter()

    def one(self, entries: Sequence[W]) -> W:
        """One word, the least used of a few candidates."""
        candidates = [entries[int(self.random.random() * len(entries))] for _ in range(CANDIDATES)]
        chosen = min(candidates, key=lambda entry: self.used[entry.key])
        self.used[chosen.key] += 1
        return chosen

    def pick(self, *options: T) -> T:
        """One of the options, all equally likely."""
        return options[int(self.random.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def noun(self, *tokens: str) -> Noun:
        """A noun of these groups."""
        return self.one(words.nouns(*tokens))

    def adjective(self, noun: Noun, *, preposed: bool | None = None, graded: bool = False) -> Adjective | None:
        """An adjective that suits the noun: before or after it in French, or one with degrees (very, more)."""
        suited = _attributes(noun, preposed, graded)
        return self._rated(suited, graded)

    def quality(self, noun: Noun, *, graded: bool = False) -> Adjective | None:
        """An adjective that suits the noun as a predicate, after `is`."""
        suited = _predicates(noun, graded)
        return self._rated(suited, graded)

    def _rated(self, suited: tuple[Adjective, ...], graded: bool) -> Adjective | None:
        """One of the adjectives; good and bad a little more often, since their degrees are irregular."""
        irregular = [adjective for adjective in suited if adjective.en in ("good", "bad")]
        if graded and irregular and self.chance(0.2):
            return self.one(irregular)
        return self.one(suited) if suited else None

    def number(self, most: int = 11) -> Word:
        """A number from two upwards."""
        return self.one(words.NUMBERS[:most])

    def maybe(self, noun: Noun, probability: float) -> Adjective | None:
        """An adjective with this probability, else None."""
        return self.adjective(noun) if self.chance(probability) else None

    def definite(self, noun: Noun, *, plural: bool | None = None, adjective: float = 0.0) -> Nominal:
        """The, this, that or someone's noun."""
        if plural is None:
            plural = self.chance(0.35)
        owner = self.owner(noun)
        determiner = owner if noun.group == "kin" else self.pick("the", "the", "the", "this", "that", owner, owner)
        plural = plural and bool(noun.en_plural)
        return noun_phrase(noun, determiner, plural=plural, adjective=self.maybe(noun, adjective))

    def owner(self, noun: Noun) -> str:
        """A possessive that suits the noun; `the` for nouns that take none."""
        if noun in words.UNOWNED:
            return "the"
        return self.pick(*SPOUSES.get(noun.en, POSSESSIVES))

    def pronoun(self, *, besides: Nominal | None = None) -> Pronoun:
        """A personal pronoun of another person than the subject `besides`: not `we see me`."""
        taken = SAME_PERSON.get(besides.en, ()) if besides else ()
        return self.pick(*(pronoun for name, pronoun in PRONOUNS.items() if name not in taken))

    def subject(self, nouns: Sequence[Noun], *, pronouns: float = 0.0, adjective: float = 0.15) -> Nominal:
        """A definite noun phrase, or a pronoun with a probability."""
        if nouns[0] in PEOPLE and self.chance(pronouns):  # an animal has no pronoun here: `it` would need a gender
            return self.pronoun()
        return self.definite(self.one(nouns), adjective=adjective)

    def known(self, verb: Verb, *, adjective: float = 0.0) -> Nominal:
        """A definite object that the verb may take."""
        noun = self.one(verb.objects)
        return self.definite(noun, plural=True if "many" in verb.flags else None, adjective=adjective)

    def manner(self, verb: Verb, subject: Nominal) -> Adverb | None:
        """An adverb of manner that suits the verb; `together` needs a plural subject."""
        manners = [name for name in verb.manners if name != "together" or subject.plural]
        return words.MANNERS[self.pick(*manners)] if manners else None

    def object(self, verb: Verb, *, negative: bool = False, adjective: float = 0.4) -> Nominal:
        """An object that the verb may take, with a determiner that suits the verb and the negation."""
        noun = self.one(verb.objects)
        suited = self.maybe(noun, adjective)
        if noun.mass:
            return self._mass(verb, noun, suited, negative)
        if verb.flags & {"many"}:
            return noun_phrase(noun, self.pick("the", *POSSESSIVES), plural=True, adjective=suited)
        if "generic" in verb.flags and noun.en_plural and self.chance(0.5):
            return noun_phrase(noun, "generic", plural=True, adjective=suited)
        if noun.group == "kin" or verb.flags & {"generic", "the"} or self.chance(0.5):
            return self.definite(noun, adjective=adjective)
        if "some" not in verb.flags:
            return self.definite(noun, plural=False) if negative else noun_phrase(noun, "a", adjective=suited)
        plural = bool(noun.en_plural) and self.chance(0.35)
        if negative:
            return noun_phrase(noun, "no", plural=plural, adjective=suited)
        if "count" in verb.flags and noun.en_plural and self.chance(0.4):
            return self._several(noun, suited)
        return noun_phrase(noun, "a", plural=plural, adjective=suited)

    def _mass(self, verb: Verb, noun: Noun, adjective: Adjective | None, negative: bool) -> Nominal:
        if "generic" in verb.flags:
            return noun_phrase(noun, self.pick("generic", "generic", "the", "this"), adjective=adjective)
        if self.chance(0.4):
            return noun_phrase(noun, self.pick("the", "this", *POSSESSIVES), adjective=adjective)
        return noun_phrase(noun, "any" if negative else self.pick("bare", "some"), adjective=adjective)

    def _several(self, noun: Noun, adjective: Adjective | None) -> Nominal:
        if self.chance(0.6):
            return noun_phrase(noun, self.number(), adjective=adjective)
        return noun_phrase(noun, self.pick("many", "several", "a_few", "too_many"), plural=True, adjective=adjective)

    def place(self, table: Sequence[tuple[Word, tuple[Noun, ...]]], *, adjective: float = 0.15) -> Phrase:
        """A preposition and a definite place from one of the tables of places."""
        preposition, nouns = self.pick(*table)
        noun = self.one(nouns)
        kind = self.pick("the", "the", "the", self.owner(noun))
        where = noun_phrase(noun, kind, adjective=self.maybe(noun, adjective))
        return say("{p} {w}", "{p} {w}", p=word(preposition), w=where)

    def whereabouts(self, subject: Nominal, verb: Verb | None = None) -> Phrase:
        """A place that suits the verb and the subject."""
        if verb and verb.en in words.VERB_PLACES:
            return self.place(words.VERB_PLACES[verb.en])
        return self.place(words.ANIMAL_PLACES if subject.head in ANIMALS else words.BEING_PLACES)

    def habit(self) -> Phrase:
        """A repeated time: every day, on mondays, in summer, in june."""
        return word(self.one(words.HABITS)) if self.chance(0.4) else self.occasion()

    def occasion(self) -> Phrase:
        """A time that goes with never and often: on mondays, in summer, in june."""
        kind = self.pick("day", "day", "season", "month")
        if kind == "day":
            return say("on {d}s", "le {d}", d=word(self.one(words.DAYS)))
        if kind == "season":
            return say("in {s}", "{s}", s=word(self.one(words.SEASONS)))
        return say("in {m}", "en {m}", m=word(self.one(words.MONTHS)))

    def past(self) -> Phrase:
        """A past time: yesterday, last monday, two weeks ago."""
        kind = self.pick("past", "past", "past", "day", "day", "unit")
        if kind == "past":
            return word(self.one(words.PASTS))
        if kind == "day":
            return say("last {d}", "{d} dernier", d=word(self.one(words.DAYS)))
        return say("{u} ago", "il y a {u}", u=noun_phrase(self.one(words.UNITS), self.number(5)))

    def future(self) -> Phrase:
        """A future time: tomorrow, next monday, in two weeks."""
        kind = self.pick("future", "future", "future", "day", "day", "unit")
        if kind == "future":
            return word(self.one(words.FUTURES))
        if kind == "day":
            return say("next {d}", "{d} prochain", d=word(self.one(words.DAYS)))
        return say("in {u}", "dans {u}", u=noun_phrase(self.one(words.UNITS), self.number(5)))

    def sometimes(self, phrase: Phrase, probability: float) -> Phrase:
        """The phrase with this probability, else an empty one."""
        return phrase if self.chance(probability) else EMPTY


@cache
def _attributes(noun: Noun, preposed: bool | None, graded: bool) -> tuple[Adjective, ...]:
    return tuple(
        adjective
        for adjective in words.adjectives(noun)
        if preposed in (None, adjective.preposed)
        and not (graded and adjective.en in ABSOLUTE)
        and adjective.en not in lexicon.ONLY_AFTER.split()
    )


@cache
def _predicates(noun: Noun, graded: bool) -> tuple[Adjective, ...]:
    return tuple(
        adjective
        for adjective in words.adjectives(noun)
        if adjective.en not in lexicon.ONLY_BEFORE.split() and not (graded and adjective.en in ABSOLUTE)
    )


PEOPLE = frozenset(words.nouns("people"))
ANIMALS = frozenset(noun.key for noun in words.nouns("animal"))
