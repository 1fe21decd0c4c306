"""Phrases in both languages: noun phrases with agreement and clauses with conjugation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from tools.phrases import english, french, lexicon
from tools.phrases.words import BE, HAVE, MEILLEUR, MODALS, PIRE, Adjective, Adverb, Noun, Verb, Word

Tense = Literal["present", "progressive", "past", "perfect", "future"]
Negation = Literal["", "not", "never"]
Link = tuple[str, str]  # the keys of two lemmas that depend on each other
NE = {"": "", "not": "pas", "never": "jamais"}


@dataclass(frozen=True)
class Phrase:
    """Text in both languages before elision, with the keys of its lemmas and the links between them."""

    en: str
    fr: str
    lemmas: frozenset[str] = frozenset()
    links: frozenset[Link] = frozenset()


@dataclass(frozen=True)
class Nominal(Phrase):
    """A phrase that can be a subject: its French person (0 je … 5 ils), its gender and the key of its noun."""

    person: int = 2
    feminine: bool = False
    head: str = ""

    @property
    def plural(self) -> bool:
        """Whether its adjectives and participles take the plural."""
        return self.person > 2


@dataclass(frozen=True)
class Pronoun(Nominal):
    """A personal pronoun with its other forms: object, possessive and stressed."""

    en_object: str = ""
    en_possessive: str = ""
    direct: str = ""
    indirect: str = ""
    stressed: str = ""


EMPTY = Phrase("", "")


def word(entry: Word) -> Phrase:
    """An invariable word as a phrase."""
    return Phrase(entry.en, entry.fr, frozenset({entry.key}))


def say(en: str, fr: str, **parts: Phrase) -> Phrase:
    """Fill the parts into an English and a French pattern."""
    return Phrase(
        en.format(**{name: part.en for name, part in parts.items()}),
        fr.format(**{name: part.fr for name, part in parts.items()}),
        frozenset().union(*(part.lemmas for part in parts.values())),
        frozenset().union(*(part.links for part in parts.values())),
    )


def stop(clause: Phrase) -> Phrase:
    """The clause with a full stop."""
    return say("{c}.", "{c}.", c=clause)


def ask(clause: Phrase) -> Phrase:
    """The clause with a question mark, which a space precedes in French."""
    return say("{c}?", "{c} ?", c=clause)


def _pronoun(line: str) -> Pronoun:
    en, en_object, possessive, fr, direct, indirect, stressed, person, mark = line.split()
    return Pronoun(
        en,
        fr,
        frozenset({f"pronoun:{en}={fr}"}),
        person=int(person),
        feminine=mark == "f",
        en_object=en_object,
        en_possessive=possessive,
        direct=direct,
        indirect=indirect,
        stressed=stressed,
    )


PRONOUNS = {line.split()[0]: _pronoun(line) for line in lexicon.PRONOUNS.strip().splitlines()}
REFLEXIVE = ("me", "te", "se", "nous", "vous", "se")


@cache
def _determiner(name: str, feminine: bool, plural: bool) -> tuple[str, str, str]:
    """The English and the French form, and the lemma's key (empty where only French has a word)."""
    en, fr = (field.replace("_", " ").split("/") for field in lexicon.DETERMINERS[name].split(" "))
    lemma = next(form for form in fr if form != "-")
    key = f"determiner:{name.replace('_', ' ')}={lemma}" if name not in ("no", "any", "bare", "generic") else ""
    return en[plural], fr[2] if plural else fr[feminine], key


def noun_phrase(
    noun: Noun,
    determiner: str | Word,
    *,
    plural: bool = False,
    adjective: Adjective | None = None,
    second: Adjective | None = None,
) -> Nominal:
    """A noun with its determiner or number and up to two adjectives, the second one after the French noun."""
    if isinstance(determiner, Word):
        plural, en, fr, key = True, determiner.en, determiner.fr, determiner.key
    else:
        en, fr, key = _determiner(determiner, noun.feminine, plural)
    both = [a for a in (adjective, second) if a is not None]
    before = [a for a in both if a.preposed]
    after = [a for a in both if not a.preposed]
    fr_noun = noun.fr_plural if plural else noun.fr
    if fr == "des" and before:
        fr = "de"  # de beaux arbres
    fr_words = [
        fr,
        *(_before_noun(a, noun, plural) for a in before),
        fr_noun,
        *(a.agree(feminine=noun.feminine, plural=plural) for a in after),
    ]
    return Nominal(
        " ".join([en, *(a.en for a in both), noun.en_plural if plural else noun.en]),
        " ".join(fr_words),
        frozenset(filter(None, (noun.key, key, *(a.key for a in both)))),
        frozenset((a.key, noun.key) for a in both),
        person=5 if plural else 2,
        feminine=noun.feminine,
        head=noun.key,
    )


def _before_noun(adjective: Adjective, noun: Noun, plural: bool) -> str:
    """A preposed adjective: un bel arbre, un vieil homme."""
    if not plural and not noun.feminine and french.starts_with_vowel(noun.fr):
        return adjective.fr_liaison
    return adjective.agree(feminine=noun.feminine, plural=plural)


def superlative(noun: Noun, adjective: Adjective) -> Nominal:
    """The oldest house, la plus vieille maison; the most famous city, la ville la plus célèbre."""
    the = "la" if noun.feminine else "le"
    if adjective.en in ("good", "bad"):
        best = MEILLEUR if adjective.en == "good" else PIRE
        fr = f"{the} {best.agree(feminine=noun.feminine, plural=False)} {noun.fr}"
    elif adjective.preposed:
        fr = f"{the} plus {_before_noun(adjective, noun, False)} {noun.fr}"
    else:
        fr = f"{the} {noun.fr} {the} plus {adjective.agree(feminine=noun.feminine, plural=False)}"
    return Nominal(
        f"the {adjective.superlative} {noun.en}",
        fr,
        frozenset({noun.key, adjective.key}),
        frozenset({(adjective.key, noun.key)}),
        feminine=noun.feminine,
        head=noun.key,
    )


def predicate(subject: Nominal, adjective: Adjective) -> Phrase:
    """The adjective as a predicate of the subject."""
    links = frozenset({(adjective.key, subject.head)} if subject.head else ())
    agreed = adjective.agree(feminine=subject.feminine, plural=subject.plural)
    return Phrase(adjective.en, agreed, frozenset({adjective.key}), links)


def comparison(subject: Nominal, adjective: Adjective) -> Phrase:
    """The comparative as a predicate of the subject: bigger than, plus grand que."""
    plain = predicate(subject, adjective)
    if adjective.en in ("good", "bad"):
        better = MEILLEUR if adjective.en == "good" else PIRE
        fr = better.agree(feminine=subject.feminine, plural=subject.plural)
    else:
        fr = f"plus {plain.fr}"
    return replace(plain, en=f"{adjective.comparative} than", fr=f"{fr} que")


@dataclass(frozen=True, kw_only=True)
class Clause:
    """A subject, a verb and what follows it, in a tense; `clitic` is a pronoun that French puts before the verb."""

    subject: Nominal
    verb: Verb
    object: Phrase = EMPTY
    tail: Phrase = EMPTY
    tense: Tense = "present"
    negation: Negation = ""
    adverb: Adverb | None = None
    clitic: Pronoun | None = None
    receiver: Pronoun | None = None

    def statement(self) -> Phrase:
        """The clause as a statement, without its full stop."""
        aux, main = self._english(asking=False)
        early, late = self._english_adverb()
        negation = self.negation
        if (aux, negation) == ("can", "not"):
            aux, negation = "cannot", ""
        return self._phrase([self.subject.en, aux, negation, early, main, self._english_object(), late, self.tail.en])

    def question(self) -> Phrase:
        """The clause as a question with est-ce que, without its question mark."""
        aux, main = self._english(asking=True)
        early, late = self._english_adverb()
        middle = [self.subject.en, self.negation, early, main, self._english_object(), late, self.tail.en]
        asked = self._phrase([aux, *middle])
        return replace(asked, fr=f"est-ce que {asked.fr}")

    def predicate(self) -> Phrase:
        """The statement without its subject, for a second verb after `and`."""
        whole = self.statement()
        return replace(whole, en=whole.en.removeprefix(self.subject.en), fr=whole.fr.removeprefix(self.subject.fr))

    def _phrase(self, en: list[str]) -> Phrase:
        subject, verb, tail = self.subject, self.verb, self.tail
        lemmas = subject.lemmas | self.object.lemmas | tail.lemmas | {verb.key}
        links = subject.links | self.object.links | tail.links
        if subject.head and verb is not BE:
            links |= {(subject.head, verb.key)}
        if isinstance(self.object, Nominal) and self.object.head:
            links |= {(verb.key, self.object.head)}
        for extra in (self.clitic, self.receiver):
            lemmas |= extra.lemmas if extra else frozenset()
        if self.adverb:
            lemmas |= {self.adverb.key}
        return Phrase(" ".join(filter(None, en)), self._french(), lemmas, links)

    def _english(self, *, asking: bool) -> tuple[str, str]:
        """The auxiliary, which a question puts first, and the rest of the verb."""
        verb, person = self.verb, self.subject.person
        be = "am" if person == 0 else "is" if person == 2 else "are"
        if self.tense == "progressive":
            return be, english.progressive(verb.en)
        if self.tense == "future":
            return be, f"going to {verb.en}"
        if self.tense == "perfect":
            return "has" if person == 2 else "have", verb.en_participle
        if verb is BE:
            return (be if self.tense == "present" else "was" if person in (0, 2) else "were"), ""
        if verb in MODALS:
            return verb.en, ""
        if asking or self.negation == "not":
            return ("did" if self.tense == "past" else "does" if person == 2 else "do"), verb.en
        if self.tense == "past":
            return "", verb.en_past
        return "", english.third_person(verb.en) if person == 2 else verb.en

    def _english_adverb(self) -> tuple[str, str]:
        if self.adverb is None:
            return "", ""
        return (self.adverb.en, "") if self.adverb.middle else ("", self.adverb.en)

    def _english_object(self) -> str:
        receiver = self.receiver.en_object if self.receiver else ""
        thing = self.clitic.en_object if self.clitic else self.object.en
        return " ".join(filter(None, [self.verb.prepositions[0], receiver, thing]))

    def _french(self) -> str:
        """Subject, ne, pronoun, finite verb, pas, early adverb, participle or infinitive, object, late adverb, tail."""
        finite, infinite = self._french_verb()
        clitic = self._french_clitic()
        moved = self.tense == "future"  # je vais le voir, but je l'ai vu
        adverb = self.adverb.fr if self.adverb else ""
        early = self.adverb is not None and self.adverb.early
        words = [
            self.subject.fr,
            "ne" if self.negation else "",
            "" if moved else clitic,
            finite,
            NE[self.negation],
            adverb if early else "",
            clitic if moved else "",
            infinite,
            self.verb.prepositions[1] if self.object.fr else "",
            self.object.fr,
            "" if early else adverb,
            self.tail.fr,
        ]
        return " ".join(filter(None, words))

    def _french_clitic(self) -> str:
        if self.verb.reflexive:
            return REFLEXIVE[self.subject.person]
        if self.receiver:
            return self.receiver.indirect
        return self.clitic.direct if self.clitic else ""

    def _french_verb(self) -> tuple[str, str]:
        """The finite verb and the participle or infinitive after it."""
        verb, person = self.verb, self.subject.person
        if self.tense == "future":
            return french.present("aller")[person], verb.infinitive
        if self.tense in ("present", "progressive"):
            return french.present(verb.infinitive)[person], ""
        if verb in (BE, HAVE):
            return french.imperfect(verb.infinitive)[person], ""
        auxiliary = french.present("être" if verb.with_etre else "avoir")[person]
        return auxiliary, self._participle()

    def _participle(self) -> str:
        """The participle: with être it agrees with the subject, with avoir with an object before the verb."""
        owner = self.subject if self.verb.with_etre else self.clitic
        participle = french.participle(self.verb.infinitive)
        if owner is None:
            return participle
        return french.agree(participle, feminine=owner.feminine, plural=owner.plural)


def infinitive(verb: Verb, subject: Nominal, object: Phrase = EMPTY, clitic: Pronoun | None = None) -> Phrase:
    """The infinitive with its object; a reflexive pronoun agrees with the subject."""
    before = REFLEXIVE[subject.person] if verb.reflexive else clitic.direct if clitic else ""
    links = object.links
    if isinstance(object, Nominal) and object.head:
        links |= {(verb.key, object.head)}
    if subject.head:
        links |= {(subject.head, verb.key)}
    lemmas = object.lemmas | {verb.key} | (clitic.lemmas if clitic else frozenset())
    thing = clitic.en_object if clitic else object.en
    en, fr = verb.prepositions if object.fr else ("", "")
    return Phrase(
        " ".join(filter(None, [verb.en, en, thing])),
        " ".join(filter(None, [before, verb.infinitive, fr, object.fr])),
        lemmas,
        links,
    )
