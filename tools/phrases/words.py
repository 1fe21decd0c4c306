"""The tables of the lexicon parsed into words with their inflected forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from tools.phrases import english, french, lexicon, verbs


@dataclass(frozen=True, eq=False)
class Word:
    """One lemma in both languages; splits and tests count lemmas by `key`."""

    en: str
    fr: str
    kind: str = field(default="", kw_only=True)

    @cached_property
    def key(self) -> str:
        """A name for the lemma, e.g. `noun:dog=chien`."""
        return f"{self.kind}:{self.en}={self.fr.strip('*+!')}"

    @cached_property
    def forms(self) -> frozenset[str]:
        """The English forms the lemma may take in a sentence."""
        return frozenset({self.en})


@dataclass(frozen=True, eq=False)
class Noun(Word):
    """A noun with both plurals (empty where it has none) and its gender in French."""

    en_plural: str
    fr_plural: str
    feminine: bool
    group: str

    @property
    def mass(self) -> bool:
        """Whether it is uncountable (du pain)."""
        return self.group in ("food", "drink")

    @cached_property
    def forms(self) -> frozenset[str]:
        return frozenset({self.en, self.en_plural} - {""})


@dataclass(frozen=True, eq=False)
class Adjective(Word):
    """An adjective with its French forms, its position and the nouns that it suits."""

    fr_feminine: str
    fr_liaison: str
    preposed: bool
    invariable: bool
    nouns: frozenset[str]

    def agree(self, *, feminine: bool, plural: bool) -> str:
        """The French form for a gender and a number."""
        if self.invariable:
            return self.fr
        if feminine:
            return self.fr_feminine + "s" * plural
        return french.plural(self.fr) if plural else self.fr

    @cached_property
    def comparative(self) -> str:
        """bigger, more famous."""
        irregular = {"good": "better", "bad": "worse"}
        short = english.degree(self.en, "er") if self.en in SHORT else f"more {self.en}"
        return irregular.get(self.en, short)

    @cached_property
    def superlative(self) -> str:
        """biggest, most famous."""
        irregular = {"good": "best", "bad": "worst"}
        short = english.degree(self.en, "est") if self.en in SHORT else f"most {self.en}"
        return irregular.get(self.en, short)

    @cached_property
    def forms(self) -> frozenset[str]:
        return frozenset({self.en, self.comparative, self.superlative})


@dataclass(frozen=True, eq=False)
class Verb(Word):
    """A verb with its English past and participle, and the subjects and objects that suit it."""

    en_past: str
    en_participle: str
    prepositions: tuple[str, str] = ("", "")
    subjects: tuple[Noun, ...] = ()
    objects: tuple[Noun, ...] = ()
    manners: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()

    @property
    def reflexive(self) -> bool:
        """Whether the French verb takes se."""
        return self.fr.startswith("se ")

    @property
    def infinitive(self) -> str:
        """The French infinitive without se."""
        return self.fr.removeprefix("se ")

    @property
    def with_etre(self) -> bool:
        """Whether the passé composé takes être, and the participle agrees with the subject."""
        return self.reflexive or self.infinitive in french.AVEC_ETRE

    @property
    def stative(self) -> bool:
        """Whether the verb is used neither in the passé composé nor in the progressive."""
        return "state" in self.flags

    @cached_property
    def forms(self) -> frozenset[str]:
        return frozenset(
            {self.en, self.en_past, self.en_participle, english.third_person(self.en), english.progressive(self.en)}
        )


@dataclass(frozen=True, eq=False)
class Adverb(Word):
    """An adverb; `early` ones stand before a French participle or infinitive, `middle` ones before an English verb."""

    early: bool = True
    middle: bool = False


SHORT = frozenset(lexicon.SHORT_ADJECTIVES.split())
ABSOLUTE = frozenset(lexicon.ABSOLUTE.split())
MEILLEUR = Adjective(
    "better", "meilleur", "meilleure", "meilleur", preposed=True, invariable=False, nouns=frozenset(), kind="adj"
)
PIRE = Adjective("worse", "pire", "pire", "pire", preposed=True, invariable=False, nouns=frozenset(), kind="adj")


def _entries(table: str) -> Iterator[list[str]]:
    """The entries of a table, split into fields, with `_` read as a space."""
    for entry in table.replace("\n", ";").split(";"):
        if entry.strip():
            yield [field.replace("_", " ") for field in entry.split()]


def _rows(table: str) -> Iterator[list[list[str]]]:
    """The lines of a table with columns separated by `|`, each column split into fields."""
    for line in table.strip().splitlines():
        yield [[field.replace("_", " ") for field in column.split()] for column in line.split("|")]


def _noun(fields: list[str], group: str) -> Noun:
    en, fr, gender = fields
    en, *en_plural = en.split("/")
    fr, *fr_plural = fr.split("/")
    none = en_plural == ["-"]
    return Noun(
        en,
        fr,
        "" if none else en_plural[0] if en_plural else english.plural(en),
        "" if none else fr_plural[0] if fr_plural else french.plural(fr),
        gender == "f",
        group,
        kind="noun",
    )


NOUNS = {noun.en: noun for group, table in lexicon.NOUNS.items() for noun in (_noun(e, group) for e in _entries(table))}


@cache
def nouns(*tokens: str) -> tuple[Noun, ...]:
    """The nouns of these tokens, in order; a token is a group, a group of groups or a noun."""
    found: dict[str, Noun] = {}
    for token in tokens:
        if token in lexicon.GROUPS:
            found |= {noun.en: noun for noun in nouns(*lexicon.GROUPS[token].split())}
        elif token in lexicon.NOUNS:
            found |= {noun.en: noun for noun in NOUNS.values() if noun.group == token}
        elif token == "destination":
            found |= {noun.en: noun for noun in nouns(*lexicon.DESTINATIONS.split())}
        else:
            found[token] = NOUNS[token.replace("_", " ")]
    return tuple(found.values())


def _adjective(fields: list[str], tokens: list[str]) -> Adjective:
    en, fr = fields
    masculine, *others = fr.split("/")
    invariable = masculine.endswith("!")
    masculine = masculine.rstrip("!")
    return Adjective(
        en,
        masculine,
        others[0] if others else french.feminine(masculine),
        others[1] if len(others) > 1 else masculine,
        en in lexicon.PREPOSED.split(),
        invariable,
        frozenset(noun.en for noun in nouns(*tokens)),
        kind="adj",
    )


ADJECTIVES = {fields[0]: _adjective(fields, tokens) for fields, tokens in _rows(lexicon.ADJECTIVES)}


@cache
def adjectives(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that suit a noun."""
    return tuple(adjective for adjective in ADJECTIVES.values() if noun.en in adjective.nouns)


def _verb(fields: list[str], **rest: object) -> Verb:
    en, fr = fields
    en, *irregular = en.split("/")
    past = irregular[0] if irregular else english.past(en)
    return Verb(en, fr, past, irregular[-1] if irregular else past, kind="verb", **rest)  # type: ignore[arg-type]


def _preposition(column: list[str]) -> tuple[str, str]:
    en, fr = (field if field != "-" else "" for field in column)
    return en, fr


def _prepositional(table: str) -> tuple[Verb, ...]:
    return tuple(
        _verb(
            verb,
            prepositions=_preposition(prepositions),
            subjects=nouns(*subjects),
            objects=nouns(*objects),
            flags=frozenset(*flags),
        )
        for verb, prepositions, subjects, objects, *flags in _rows(table)
    )


TRANSITIVE = tuple(
    _verb(verb, subjects=nouns(*subjects), objects=nouns(*objects), flags=frozenset(*flags))
    for verb, subjects, objects, *flags in _rows(verbs.TRANSITIVE)
)
INTRANSITIVE = tuple(
    _verb(verb, subjects=nouns(*subjects), manners=tuple(manners))
    for verb, subjects, manners in _rows(verbs.INTRANSITIVE)
)
MOTION = _prepositional(verbs.MOTION)
PREPOSITIONAL = _prepositional(verbs.PREPOSITIONAL)
DATIVE = tuple(_verb(verb, objects=nouns(*objects)) for verb, objects in _rows(verbs.DATIVE))
CONTROL = tuple(
    _verb(verb, prepositions=("to", preposition.strip("-")), flags=frozenset(*flags))
    for verb, (preposition,), *flags in _rows(verbs.CONTROL)
)
MODALS = tuple(_verb(fields) for fields in _entries(verbs.MODALS))
BE = Verb("be", "être", "was", "been", kind="verb")
HAVE = Verb("have", "avoir", "had", "had", kind="verb")
PLAY = next(verb for verb in INTRANSITIVE if verb.en == "play")


def _plain(table: str, kind: str) -> tuple[Word, ...]:
    return tuple(Word(en, fr, kind=kind) for en, fr in _entries(table))


NUMBERS = _plain(lexicon.NUMBERS, "number")
DEGREES = _plain(lexicon.DEGREES, "degree")
DAYS = _plain(lexicon.DAYS, "day")
MONTHS = _plain(lexicon.MONTHS, "month")
SEASONS = _plain(lexicon.SEASONS, "season")
HABITS = _plain(lexicon.HABITS, "time")
PASTS = _plain(lexicon.PASTS, "time")
FUTURES = _plain(lexicon.FUTURES, "time")
STATES = _plain(lexicon.STATES, "state")
WEATHER = _plain(lexicon.WEATHER, "weather")
SCENES = _plain(lexicon.SCENES, "scene")
FREQUENCIES = tuple(Adverb(en, fr, middle=True, kind="adverb") for en, fr in _entries(lexicon.FREQUENCIES))
MANNERS = {
    en: Adverb(en, fr.strip("+"), early=fr.startswith("+"), kind="adverb") for en, fr in _entries(lexicon.MANNERS)
}
UNITS = tuple(_noun(fields, "unit") for fields in _entries(lexicon.UNITS))
ORDINALS = tuple(replace(_adjective(fields, []), preposed=True) for fields in _entries(lexicon.ORDINALS))
PROFESSIONS = {en: tuple(fr.split("/")) for en, fr in _entries(lexicon.PROFESSIONS)}
MEASURES = tuple((_noun(fields, "measure"), nouns(*tokens)) for fields, tokens in _rows(lexicon.MEASURES))


def _verb_places() -> dict[str, tuple[tuple[Word, tuple[Noun, ...]], ...]]:
    table: dict[str, list[tuple[Word, tuple[Noun, ...]]]] = {}
    for verb, preposition, tokens in _rows(verbs.VERB_PLACES):
        table.setdefault(" ".join(verb), []).append((Word(*preposition, kind="preposition"), nouns(*tokens)))
    return {verb: tuple(places) for verb, places in table.items()}


def _places(table: str) -> tuple[tuple[Word, tuple[Noun, ...]], ...]:
    return tuple((Word(*fields, kind="preposition"), nouns(*tokens)) for fields, tokens in _rows(table))


THING_PLACES = _places(lexicon.THING_PLACES)
BEING_PLACES = _places(lexicon.BEING_PLACES)
ANIMAL_PLACES = _places(lexicon.ANIMAL_PLACES)
VERB_PLACES = _verb_places()
UNOWNED = frozenset(nouns(*lexicon.UNOWNED.split()))
