"""Templates without a verb: a cute puppy, three bottles of water, behind the old church."""

from __future__ import annotations

from tools.phrases import words
from tools.phrases.draw import POSSESSIVES, Draw
from tools.phrases.grammar import Nominal, Phrase, noun_phrase, say, superlative, word
from tools.phrases.words import Noun

COUNTED = ("being", "fruit", "vegetable", "dish", "goods", "building", "nature")


def _counted(draw: Draw) -> Noun:
    """A noun that has a plural."""
    return draw.one([noun for noun in words.nouns(*COUNTED) if noun.en_plural])


def _owner(draw: Draw, noun: Noun) -> str:
    owner = draw.owner(noun)
    return owner if owner != "the" else draw.pick("the", "this", "that")


def indefinite(draw: Draw) -> Phrase:
    """A cute puppy."""
    noun = _counted(draw)
    return noun_phrase(noun, "a", adjective=draw.adjective(noun))


def definite(draw: Draw) -> Phrase:
    """The red car."""
    noun = _counted(draw)
    return noun_phrase(noun, "the", adjective=draw.adjective(noun))


def definite_plural(draw: Draw) -> Phrase:
    """The small cats."""
    noun = _counted(draw)
    return noun_phrase(noun, "the", plural=True, adjective=draw.adjective(noun))


def indefinite_plural(draw: Draw) -> Phrase:
    """Some beautiful trees."""
    noun = _counted(draw)
    return noun_phrase(noun, "a", plural=True, adjective=draw.adjective(noun))


def owned(draw: Draw) -> Phrase:
    """My old friend, her new shoes."""
    noun = _counted(draw)
    return noun_phrase(noun, _owner(draw, noun), plural=draw.chance(0.5), adjective=draw.adjective(noun))


def pointed_at(draw: Draw) -> Phrase:
    """This old man, those white flowers."""
    noun = _counted(draw)
    adjective = draw.adjective(noun)
    return noun_phrase(noun, draw.pick("this", "that"), plural=draw.chance(0.5), adjective=adjective)


def numbered(draw: Draw) -> Phrase:
    """Three red apples."""
    noun = _counted(draw)
    return noun_phrase(noun, draw.number(19), adjective=draw.adjective(noun))


def quantified(draw: Draw) -> Phrase:
    """Many old books, a few fresh eggs."""
    noun = _counted(draw)
    quantity = draw.pick("many", "several", "a_few", "too_many", "enough")
    return noun_phrase(noun, quantity, plural=True, adjective=draw.adjective(noun))


def one_by_one(draw: Draw) -> Phrase:
    """Every small village, another black cat."""
    noun = _counted(draw)
    return noun_phrase(noun, draw.pick("every", "another"), adjective=draw.adjective(noun))


def two_adjectives(draw: Draw) -> Phrase | None:
    """A small black dog."""
    noun = _counted(draw)
    first, second = draw.adjective(noun, preposed=True), draw.adjective(noun, preposed=False)
    if first is None or second is None:
        return None
    return noun_phrase(noun, draw.pick("a", "the", "this"), adjective=first, second=second)


def ordinal(draw: Draw) -> Phrase:
    """The first train, the last red apple."""
    noun = _counted(draw)
    adjective = draw.adjective(noun, preposed=False) if draw.chance(0.5) else None
    return noun_phrase(noun, "the", adjective=draw.one(words.ORDINALS), second=adjective)


def everything(draw: Draw) -> Phrase:
    """All my friends, all the small villages."""
    noun = _counted(draw)
    things = noun_phrase(noun, draw.pick("the", _owner(draw, noun)), plural=True, adjective=draw.maybe(noun, 0.6))
    return say("all {t}", "toutes {t}" if noun.feminine else "tous {t}", t=things)


def belonging(draw: Draw) -> Phrase:
    """My brother's red car."""
    noun = draw.noun("object", "vehicle", "pet", "house", "garden", "bedroom", "kitchen")
    owner = draw.definite(draw.noun("people"), plural=False)
    thing = noun_phrase(noun, "the", plural=draw.chance(0.3), adjective=draw.maybe(noun, 0.5))
    bare = Phrase(thing.en.removeprefix("the "), thing.fr, thing.lemmas, thing.links)
    return say("{o}'s {t}", "{t} de {o}", o=owner, t=bare)


def located(draw: Draw) -> Phrase:
    """The book on the table."""
    noun = draw.noun("portable", "fruit", "pet")
    thing = noun_phrase(noun, draw.pick("the", "a"), plural=draw.chance(0.4), adjective=draw.maybe(noun, 0.3))
    return say("{t} {p}", "{t} {p}", t=thing, p=draw.place(words.THING_PLACES))


def pair(draw: Draw) -> Phrase:
    """A dog and two cats."""
    first, second = draw.noun("animal", "people"), draw.noun("animal", "person", "worker")
    if draw.chance(0.5):
        first, second = draw.noun("object", "fruit"), draw.noun("object", "fruit")
    return say("{a} and {b}", "{a} et {b}", a=_one_or_more(draw, first), b=_one_or_more(draw, second))


def _one_or_more(draw: Draw, noun: Noun) -> Nominal:
    if noun.en_plural and draw.chance(0.4):
        return noun_phrase(noun, draw.number())
    if noun.group == "kin":
        return draw.definite(noun)
    return noun_phrase(noun, draw.pick("a", "the"), adjective=draw.maybe(noun, 0.3))


def portion(draw: Draw) -> Phrase:
    """Some fresh bread and some milk."""
    first, second = draw.noun("food", "drink"), draw.noun("food", "drink")
    one = noun_phrase(first, "some", adjective=draw.maybe(first, 0.5))
    two = noun_phrase(second, "some", adjective=draw.maybe(second, 0.2))
    return say("{a} and {b}", "{a} et {b}", a=one, b=two)


def measure(draw: Draw) -> Phrase:
    """A cup of tea, three kilos of apples."""
    container, contents = draw.pick(*words.MEASURES)
    number = draw.number(15) if draw.chance(0.8) else None
    amount = noun_phrase(container, number) if number else noun_phrase(container, "a")
    noun = draw.one(contents)
    stuff = noun_phrase(noun, "bare", plural=not noun.mass, adjective=draw.maybe(noun, 0.5))
    bare = Phrase(stuff.en, _without_article(stuff.fr), stuff.lemmas, stuff.links)
    return say("{a} of {s}", "{a} de {s}", a=amount, s=bare)


def _without_article(fr: str) -> str:
    for article in ("de le ", "de la ", "des ", "de "):
        if fr.startswith(article):
            return fr.removeprefix(article)
    return fr


def whereabouts(draw: Draw) -> Phrase:
    """Behind the old church."""
    return draw.place(draw.pick(words.THING_PLACES, words.BEING_PLACES), adjective=0.8)


def best(draw: Draw) -> Phrase | None:
    """The oldest house in the village."""
    noun = draw.noun("person", "worker", "animal", "building", "tree", "river", "mountain", "bridge", "street", "lake")
    adjective = draw.adjective(noun, graded=True)
    if adjective is None:
        return None
    where = noun_phrase(draw.noun("village", "city", "school", "park", "forest", "island", "museum", "farm"), "the")
    return say("{t} {i} {w}", "{t} de {w}", t=superlative(noun, adjective), i=_within(where), w=where)


def _within(where: Phrase) -> Phrase:
    preposition = {"the island": "on", "the farm": "on"}.get(where.en, "in")
    return Phrase(preposition, "")


def company(draw: Draw) -> Phrase:
    """A woman with a red umbrella, a child without shoes."""
    person = draw.noun("person", "worker")
    who = noun_phrase(person, draw.pick("a", "the", "this"), adjective=draw.maybe(person, 0.3))
    noun = draw.noun("hat", "coat", "scarf", "umbrella", "bag", "suitcase", "dog", "cat", "basket", "flower", "guitar")
    what = noun_phrase(noun, "a", adjective=draw.maybe(noun, 0.7))
    return say("{a} with {b}", "{a} avec {b}", a=who, b=what)


def moment(draw: Draw) -> Phrase:
    """The first monday of january, three days before the concert."""
    event = noun_phrase(draw.noun("event"), draw.pick("the", "this", *POSSESSIVES))
    if draw.chance(0.4):
        day = say("{d}", "{d}", d=word(draw.one(words.DAYS)))
        return say("{d} after {e}", "{d} après {e}", d=day, e=event)
    span = noun_phrase(draw.one(words.UNITS), draw.number(14))
    when = draw.pick(("before", "avant"), ("after", "après"))
    return say(f"{{s}} {when[0]} {{e}}", f"{{s}} {when[1]} {{e}}", s=span, e=event)


TEMPLATES = (
    indefinite, definite, definite_plural, indefinite_plural, owned, pointed_at, numbered, quantified, one_by_one,
    two_adjectives, ordinal, everything, belonging, located, pair, portion, measure, whereabouts, best, company, moment,
)  # fmt: skip
