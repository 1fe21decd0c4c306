"""Templates with have, and those with be in English and avoir in French."""

from __future__ import annotations

from dataclasses import replace

from tools.phrases import words
from tools.phrases.draw import Draw
from tools.phrases.grammar import Clause, Negation, Nominal, Phrase, Tense, ask, noun_phrase, say, stop, word
from tools.phrases.words import BE, HAVE, Noun, Verb

NOW = words.Word("now", "maintenant", kind="time")
NEED = Verb("need", "avoir besoin", "needed", "needed", kind="verb")
EURO = Noun("euro", "euro", "euros", "euros", False, "unit", kind="noun")
EYES = Noun("eye", "œil", "eyes", "yeux", False, "face", kind="noun")
HAIR = Noun("hair", "cheveu", "hair", "cheveux", False, "face", kind="noun")


def has(draw: Draw) -> Phrase:
    """I have a red car."""
    clause = _has(draw, negative=False)
    return stop(clause.statement())


def has_not(draw: Draw) -> Phrase:
    """She does not have a dog."""
    return stop(_has(draw, negative=True).statement())


def has_it(draw: Draw) -> Phrase:
    """Do you have a black pen?"""
    return ask(_has(draw, negative=False).question())


def had(draw: Draw) -> Phrase:
    """My grandmother had two cats."""
    return stop(replace(_has(draw, negative=False), tense="past").statement())


def _has(draw: Draw, *, negative: bool) -> Clause:
    subject = draw.subject(words.nouns("people"), pronouns=0.4, adjective=0.1)
    noun = draw.noun("pet", "goods", "house", "garden", "brother", "sister", "cousin", "uncle", "aunt", "question")
    adjective = draw.maybe(noun, 0.6)
    if negative:
        thing = noun_phrase(noun, "no", plural=draw.chance(0.3), adjective=adjective)
        return Clause(subject=subject, verb=HAVE, object=thing, negation="not")
    if draw.chance(0.3):
        return Clause(subject=subject, verb=HAVE, object=noun_phrase(noun, draw.number(5), adjective=adjective))
    return Clause(subject=subject, verb=HAVE, object=noun_phrase(noun, "a", adjective=adjective))


def looks(draw: Draw) -> Phrase:
    """He has blue eyes and long hair: les yeux, les cheveux."""
    subject = draw.subject(words.nouns("people"), pronouns=0.2, adjective=0.15)
    eyes, hair = (
        _face(draw, EYES, "blue green brown black grey"),
        _face(draw, HAIR, "long short black brown grey white"),
    )
    what = draw.pick(eyes, hair, say("{e} and {h}", "{e} et {h}", e=eyes, h=hair))
    return stop(Clause(subject=subject, verb=HAVE, object=what).statement())


def _face(draw: Draw, noun: Noun, qualities: str) -> Phrase:
    adjective = replace(draw.one([words.ADJECTIVES[name] for name in qualities.split()]), preposed=False)
    return noun_phrase(noun, "generic", plural=True, adjective=adjective)


def _crossed(subject: Nominal, en: Phrase, fr: str, *, asking: bool, tense: Tense, negation: Negation) -> Phrase:
    """A clause with be in English and avoir in French: he is hungry, il a faim."""
    english = Clause(subject=subject, verb=BE, object=en, tense=tense, negation=negation)
    french = replace(english, verb=HAVE, object=replace(en, fr=fr))
    if asking:
        return replace(english.question(), fr=french.question().fr)
    return replace(english.statement(), fr=french.statement().fr)


def feels(draw: Draw) -> Phrase:
    """The boy is hungry, we are not cold."""
    subject = draw.subject(words.nouns("people", "pet"), pronouns=0.3)
    state = draw.one(words.STATES[:-1])
    tense: Tense = draw.pick("present", "present", "past")
    said = _crossed(subject, word(state), state.fr, asking=False, tense=tense, negation=draw.pick("", "not"))
    return say("{s} {t}.", "{s} {t}.", s=said, t=draw.sometimes(word(NOW), 0.3 * (tense != "past")))


def feels_it(draw: Draw) -> Phrase:
    """Are you thirsty?"""
    subject = draw.subject(words.nouns("people", "pet"), pronouns=0.3)
    state = draw.one(words.STATES[:-1])
    return ask(_crossed(subject, word(state), state.fr, asking=True, tense="present", negation=""))


def fears(draw: Draw) -> Phrase:
    """My sister is afraid of spiders, the cat is afraid of the dog."""
    subject = draw.subject(words.nouns("people", "pet"), pronouns=0.3)
    feared = draw.noun("insect", "beast", "dog", "teacher", "king", "thief", "giant", "soldier", "doctor")
    of = noun_phrase(feared, draw.pick("the", "this"), plural=draw.chance(0.5), adjective=draw.maybe(feared, 0.3))
    what = say("afraid of {o}", "peur de {o}", o=of)
    what = replace(what, lemmas=what.lemmas | {words.STATES[-1].key})
    negation: Negation = draw.pick("", "not")
    return stop(_crossed(subject, what, what.fr, asking=False, tense="present", negation=negation))


def age(draw: Draw) -> Phrase:
    """My brother is ten years old."""
    noun = draw.noun("kin", "worker", "pet", "horse", "king", "queen", "man", "woman", "tourist")
    subject = draw.pronoun() if draw.chance(0.2) else draw.definite(noun, adjective=0.15)
    young = noun.group in ("pet", "beast")
    years = noun_phrase(words.UNITS[-1], draw.number(9 if young else 20))
    negation: Negation = draw.pick("", "", "not")
    old = replace(years, en=f"{years.en} old", head="")
    return stop(_crossed(subject, old, years.fr, asking=False, tense="present", negation=negation))


def how_old(draw: Draw) -> Phrase:
    """How old is your sister?"""
    subject = draw.definite(draw.noun("people", "pet", "horse", "house", "castle", "tree"), adjective=0.6)
    be = ("are", "ont") if subject.plural else ("is", "a")
    return say(f"how old {be[0]} {{s}}?", f"quel âge {be[1]} {{s}} ?", s=subject)


def hurts(draw: Draw) -> Phrase:
    """My feet hurt this morning: j'ai mal aux pieds."""
    owner = draw.pronoun()
    noun = draw.noun("body")
    plural = bool(noun.en_plural) and (noun.en == "tooth" or draw.chance(0.5))  # mal aux dents, never à la dent
    part = noun_phrase(noun, "the", plural=plural)
    en = f"{owner.en_possessive} {part.en.removeprefix('the ')} {'hurt' if plural else 'hurts'}"
    clause = Clause(subject=owner, verb=HAVE, object=Phrase("", f"mal à {part.fr}", part.lemmas))
    return say(
        "{p} {t}.",
        "{p} {t}.",
        p=replace(clause.statement(), en=en),
        t=draw.sometimes(word(draw.one([*words.HABITS, NOW])), 0.8),
    )


def needs(draw: Draw) -> Phrase:
    """We need a new car: nous avons besoin d'une nouvelle voiture."""
    subject = draw.subject(words.nouns("people"), pronouns=0.4)
    noun = draw.noun("portable", "furniture", "vehicle", "teacher", "doctor", "nurse", "lawyer", "driver")
    thing = noun_phrase(noun, draw.pick("a", "my", "his", "our", "this"), adjective=draw.maybe(noun, 0.5))
    negation: Negation = draw.pick("", "not")
    en = Clause(subject=subject, verb=NEED, object=thing, negation=negation).statement()
    fr = Clause(subject=subject, verb=HAVE, object=say("", "besoin de {t}", t=thing), negation=negation).statement()
    return stop(replace(en, fr=fr.fr))


def colour(draw: Draw) -> Phrase:
    """What colour is your dress?"""
    subject = draw.definite(
        draw.noun("clothes", "vehicle", "furniture", "pet", "door", "house", "flower"), adjective=0.6
    )
    be = ("are", "sont") if subject.plural else ("is", "est")
    return say(f"what colour {be[0]} {{s}}?", f"de quelle couleur {be[1]} {{s}} ?", s=subject)


def price(draw: Draw) -> Phrase:
    """The dress costs twenty euros."""
    subject = draw.definite(draw.noun("object", "furniture", "fruit", "dish"), adjective=0.4)
    euros = noun_phrase(EURO, draw.number(20))
    cost = ("cost", "coûtent") if subject.plural else ("costs", "coûte")
    if draw.chance(0.3):
        do = "do" if subject.plural else "does"
        return say(f"how much {do} {{s}} cost?", f"combien {cost[1]} {{s}} ?", s=subject)
    return say(f"{{s}} {cost[0]} {{e}}.", f"{{s}} {cost[1]} {{e}}.", s=subject, e=euros)


TEMPLATES = (
    has, has_not, has_it, had, looks, feels, feels_it, fears, age, how_old, hurts, needs, colour, price,
)  # fmt: skip
