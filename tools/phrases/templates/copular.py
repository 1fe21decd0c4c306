"""Templates with be: adjectives, comparisons, places, professions and `there is`."""

from __future__ import annotations

from dataclasses import replace

from tools.phrases import french, lexicon, words
from tools.phrases.draw import Draw
from tools.phrases.grammar import (
    EMPTY,
    Clause,
    Negation,
    Nominal,
    Phrase,
    Tense,
    ask,
    comparison,
    noun_phrase,
    predicate,
    say,
    stop,
    word,
)
from tools.phrases.words import BE, NOUNS, Adjective, Noun

CONTRARY = ({"long", "short"}, {"old", "modern"}, {"small", "tall"}, {"bad", "delicious"}, {"bad", "excellent"})
DESCRIBED = ("people", "pet", "beast", "fruit", "dish", "food", "drink", "goods", "place", "event", "speech", "nature")


def _described(draw: Draw, *, plural: bool | None = None, graded: bool = False) -> tuple[Nominal, Adjective] | None:
    """A definite subject and an adjective that suits it as a predicate."""
    noun = draw.noun(*DESCRIBED)
    adjective = draw.quality(noun, graded=graded)
    if adjective is None or (plural and not noun.en_plural):
        return None
    return draw.definite(noun, plural=plural), adjective


def _is(subject: Nominal, complement: Phrase, *, tense: Tense = "present", negation: Negation = "") -> Clause:
    return Clause(subject=subject, verb=BE, object=complement, tense=tense, negation=negation)


def _person_quality(draw: Draw, subject: Nominal, *, graded: bool = False) -> Adjective:
    """An adjective that suits a pronoun."""
    adjective = draw.quality(NOUNS["woman" if subject.feminine else "man"], graded=graded)
    assert adjective is not None
    return adjective


def is_so(draw: Draw) -> Phrase | None:
    """The house is very big."""
    found = _described(draw, plural=False, graded=True)
    if found is None:
        return None
    degree = draw.sometimes(word(draw.one(words.DEGREES)), 0.5)
    return stop(_is(found[0], say("{d} {a}", "{d} {a}", d=degree, a=predicate(*found))).statement())


def are_so(draw: Draw) -> Phrase | None:
    """My shoes are dirty."""
    found = _described(draw, plural=True)
    return stop(_is(found[0], predicate(*found)).statement()) if found else None


def pronoun_is_so(draw: Draw) -> Phrase:
    """She is very happy."""
    subject = draw.pronoun()
    degree = word(draw.one(words.DEGREES))
    quality = predicate(subject, _person_quality(draw, subject, graded=True))
    return stop(_is(subject, say("{d} {a}", "{d} {a}", d=degree, a=quality)).statement())


def is_often_so(draw: Draw) -> Phrase:
    """They are often tired on mondays."""
    subject = draw.subject(words.nouns("kin", "worker", "pet"), pronouns=0.5)
    noun = next((noun for noun in NOUNS.values() if noun.key == subject.head), None)
    passing = [adjective for adjective in PASSING if noun is None or noun.en in adjective.nouns]
    quality = predicate(subject, draw.one(passing))
    clause = _is(subject, quality)
    adverb = draw.one(words.FREQUENCIES)
    return stop(replace(clause, adverb=adverb, tail=draw.occasion()).statement())


def is_not_so(draw: Draw) -> Phrase | None:
    """The soup is not hot."""
    found = _described(draw)
    return stop(_is(found[0], predicate(*found), negation="not").statement()) if found else None


def is_it_so(draw: Draw) -> Phrase | None:
    """Is the soup hot?"""
    found = _described(draw)
    return ask(_is(found[0], predicate(*found)).question()) if found else None


def is_never_so(draw: Draw) -> Phrase:
    """He is never late, my aunt is never sad."""
    subject = draw.subject(words.nouns("kin", "worker"), pronouns=0.4)
    quality = predicate(subject, draw.one(PASSING))
    clause = _is(subject, quality, negation="never")
    return stop(replace(clause, tail=draw.sometimes(draw.occasion(), 0.6)).statement())


def why_so(draw: Draw) -> Phrase:
    """Why are you sad today?"""
    subject = draw.subject(words.nouns("kin", "worker", "child", "boy", "girl", "baby"), pronouns=0.4)
    clause = _is(subject, predicate(subject, draw.one(PASSING)))
    when = draw.sometimes(draw.habit(), 0.7)
    return say("why {q} {w}?", "pourquoi {q} {w} ?", q=clause.question(), w=when)


def both(draw: Draw) -> Phrase | None:
    """The dog is small and strong."""
    found = _described(draw)
    if found is None:
        return None
    subject, first = found
    noun = next(noun for noun in NOUNS.values() if noun.key == subject.head)
    second = draw.quality(noun)
    if second is None or second.preposed == first.preposed or {first.en, second.en} in CONTRARY:
        return None
    quality = say("{a} and {b}", "{a} et {b}", a=predicate(subject, first), b=predicate(subject, second))
    return stop(_is(subject, quality).statement())


def was_so(draw: Draw) -> Phrase | None:
    """The soup was cold yesterday."""
    found = _described(draw)
    if found is None:
        return None
    when = draw.pick(EMPTY, word(draw.one(words.PASTS)))
    return stop(replace(_is(found[0], predicate(*found), tense="past"), tail=when).statement())


def will_be_so(draw: Draw) -> Phrase:
    """The children are going to be tired tomorrow."""
    subject = draw.subject(words.nouns("people"), pronouns=0.3)
    clause = _is(subject, predicate(subject, draw.one(PASSING)), tense="future")
    when = draw.pick(word(draw.one(words.FUTURES)), say("next {d}", "{d} prochain", d=word(draw.one(words.DAYS))))
    return stop(replace(clause, tail=when).statement())


def _rivals(draw: Draw) -> tuple[Nominal, Adjective, Nominal] | None:
    """Two nouns of one group and a gradable adjective that suits both."""
    noun = draw.noun(
        "people", "pet", "beast", "fruit", "goods", "building", "lake", "river", "mountain", "tree", "hill"
    )
    other = draw.noun(noun.group)
    adjective = draw.quality(noun, graded=True)
    if adjective is None or other is noun or other.en not in adjective.nouns:
        return None
    subject = draw.definite(noun)
    return subject, adjective, draw.definite(other, plural=subject.plural)


def more(draw: Draw) -> Phrase | None:
    """The dog is bigger than the cat."""
    rivals = _rivals(draw)
    if rivals is None:
        return None
    subject, adjective, other = rivals
    said = say("{c} {o}", "{c} {o}", c=comparison(subject, adjective), o=other)
    return stop(_is(subject, said).statement())


def is_it_more(draw: Draw) -> Phrase | None:
    """Is your car faster than the bus?"""
    rivals = _rivals(draw)
    if rivals is None:
        return None
    subject, adjective, other = rivals
    said = say("{c} {o}", "{c} {o}", c=comparison(subject, adjective), o=other)
    return ask(_is(subject, said).question())


def less(draw: Draw) -> Phrase | None:
    """The train is less expensive than the plane."""
    rivals = _rivals(draw)
    if rivals is None:
        return None
    subject, adjective, other = rivals
    said = say("less {a} than {o}", "moins {a} que {o}", a=predicate(subject, adjective), o=other)
    return stop(_is(subject, said).statement())


def equal(draw: Draw) -> Phrase | None:
    """The boy is as tall as his sister."""
    rivals = _rivals(draw)
    if rivals is None:
        return None
    subject, adjective, other = rivals
    said = say("as {a} as {o}", "aussi {a} que {o}", a=predicate(subject, adjective), o=other)
    return stop(_is(subject, said).statement())


def person_more(draw: Draw) -> Phrase:
    """She is taller than him."""
    subject = draw.pronoun()
    other = draw.pronoun(besides=subject)
    than = Phrase(other.en_object, other.stressed, other.lemmas)
    if draw.chance(0.7):
        than = draw.definite(draw.noun("kin", "worker"))
    said = comparison(subject, _person_quality(draw, subject, graded=True))
    return stop(_is(subject, say("{s} {t}", "{s} {t}", s=said, t=than)).statement())


def lies_somewhere(draw: Draw) -> Phrase:
    """The keys are on the table."""
    subject = draw.definite(draw.noun("portable", "fruit", "dish"), adjective=0.15)
    return stop(_is(subject, draw.place(words.THING_PLACES)).statement())


def stands_somewhere(draw: Draw) -> Phrase:
    """The children are behind the school."""
    subject = draw.subject(words.nouns("people", "animal"), pronouns=0.15)
    return stop(_is(subject, draw.whereabouts(subject)).statement())


def is_not_somewhere(draw: Draw) -> Phrase:
    """My glass is not on the table."""
    subject = draw.definite(draw.noun("portable", "fruit", "dish"))
    return stop(_is(subject, draw.place(words.THING_PLACES), negation="not").statement())


def was_somewhere(draw: Draw) -> Phrase:
    """We were at the museum yesterday."""
    subject = draw.subject(words.nouns("people"), pronouns=0.4)
    where = draw.place(words.BEING_PLACES, adjective=0)
    clause = _is(subject, where, tense="past")
    return stop(replace(clause, tail=word(draw.one(words.PASTS))).statement())


def where_is(draw: Draw) -> Phrase:
    """Where are my keys?"""
    noun = draw.noun("people", "pet", "goods", "building")
    subject = draw.definite(noun, adjective=0.5)
    be = ("are", "sont") if subject.plural else ("is", "est")
    return say(f"where {be[0]} {{s}}?", f"où {be[1]} {{s}} ?", s=subject)


def is_it_somewhere(draw: Draw) -> Phrase:
    """Is your cat in the garden?"""
    subject = draw.subject(words.nouns("people", "animal"), pronouns=0.1)
    return ask(_is(subject, draw.whereabouts(subject)).question())


def _found(draw: Draw) -> tuple[Noun, Phrase]:
    """A noun and a place that suits it."""
    if draw.chance(0.5):
        return draw.noun("portable", "fruit", "dish"), draw.place(words.THING_PLACES)
    if draw.chance(0.5):
        return draw.noun("animal"), draw.place(words.ANIMAL_PLACES)
    return draw.noun("person", "worker"), draw.place(words.BEING_PLACES)


def there_is(draw: Draw) -> Phrase:
    """There is a cat under the table."""
    noun, place = _found(draw)
    thing = noun_phrase(noun, "a", adjective=draw.maybe(noun, 0.5))
    return say("there is {t} {p}.", "il y a {t} {p}.", t=thing, p=place)


def there_are(draw: Draw) -> Phrase:
    """There are three birds in the tree."""
    noun, place = _found(draw)
    amount = draw.number() if draw.chance(0.6) else draw.pick("many", "several", "a_few", "too_many", "a")
    thing = noun_phrase(noun, amount, plural=True, adjective=draw.maybe(noun, 0.3))
    return say("there are {t} {p}.", "il y a {t} {p}.", t=thing, p=place)


def there_is_no(draw: Draw) -> Phrase:
    """There is no milk in the kitchen, there are no birds in the garden."""
    noun, place = _found(draw)
    if draw.chance(0.3):
        noun, place = draw.noun("food", "drink"), draw.place(words.THING_PLACES[2:3])
    plural = bool(noun.en_plural)
    thing = noun_phrase(noun, "no", plural=plural, adjective=draw.maybe(noun, 0.3))
    bare = replace(thing, en=thing.en.removeprefix("any ").removeprefix("a "))
    be = "are" if plural else "is"
    return say(f"there {be} no {{t}} {{p}}.", "il ne y a pas {t} {p}.", t=bare, p=place)


def is_there(draw: Draw) -> Phrase:
    """Is there a bank near the station?"""
    noun, place = _found(draw)
    if draw.chance(0.4):
        noun, place = draw.noun("building"), draw.place(words.BEING_PLACES[6:])
    thing = noun_phrase(noun, "a", adjective=draw.maybe(noun, 0.4))
    return say("is there {t} {p}?", "est-ce que il y a {t} {p} ?", t=thing, p=place)


def how_many(draw: Draw) -> Phrase:
    """How many birds are there in the garden?"""
    noun, place = _found(draw)
    thing = noun_phrase(noun, "any", plural=True, adjective=draw.maybe(noun, 0.3))
    bare = replace(thing, en=thing.en.removeprefix("any "))
    return say("how many {t} are there {p}?", "combien {t} y a-t-il {p} ?", t=bare, p=place)


def profession(draw: Draw) -> Phrase | None:
    """My sister is a nurse: no article in French."""
    subject = draw.subject(words.nouns("kin", "man", "woman"), pronouns=0.3, adjective=0.3)
    noun = draw.noun("worker")
    form = words.PROFESSIONS[noun.en][subject.feminine]
    if form == "-":
        return None
    fr = form if not subject.plural else french.plural(form)
    job = Phrase(noun.en_plural if subject.plural else f"a {noun.en}", fr, frozenset({noun.key}))
    tense, negation = draw.pick(("present", ""), ("present", "not"), ("past", ""))
    clause = _is(subject, job, tense=tense, negation=negation)  # type: ignore[arg-type]
    return stop(clause.statement())


def identity(draw: Draw) -> Phrase:
    """It is a black cat, these are my books."""
    noun = draw.noun("people", "animal", "fruit", "goods", "building")
    adjective = draw.maybe(noun, 0.8)
    if noun.group != "kin" and draw.chance(0.6):
        thing = noun_phrase(noun, "a", adjective=adjective)
        return say(f"{draw.pick('it', 'this')} is {{t}}.", "c'est {t}.", t=thing)
    if noun.en_plural and draw.chance(0.5):
        things = noun_phrase(noun, draw.owner(noun), plural=True, adjective=adjective)
        return say("these are {t}.", "ce sont {t}.", t=things)
    return say("this is {t}.", "c'est {t}.", t=noun_phrase(noun, draw.owner(noun), adjective=adjective))


def weather(draw: Draw) -> Phrase:
    """It is cold in the kitchen, it is raining in the forest."""
    place = noun_phrase(draw.noun("village", "city", "forest", "park", "garden"), draw.pick("the", "this", "our"))
    when = draw.sometimes(word(draw.one(words.HABITS)), 0.6)
    if draw.chance(0.5):
        when = word(draw.one([*words.MONTHS, *words.SEASONS]))
        preposition = "en" if when.en in {month.en for month in words.MONTHS} else ""
        when = Phrase(f"in {when.en}", f"{preposition} {when.fr}", when.lemmas)
    return say("{w} in {p} {t}.", "{w} dans {p} {t}.", w=word(draw.one(words.WEATHER)), p=place, t=when)


# Temporary moods, which go with a time.
PASSING = tuple(words.ADJECTIVES[name] for name in lexicon.PASSING.split())

TEMPLATES = (
    is_so, are_so, pronoun_is_so, is_often_so, is_not_so, is_it_so, is_never_so, why_so, both, was_so, will_be_so, more,
    is_it_more, less, equal, person_more, lies_somewhere, stands_somewhere, is_not_somewhere, was_somewhere, where_is,
    is_it_somewhere, there_is, there_are, there_is_no, is_there, how_many, profession, identity, weather,
)  # fmt: skip
