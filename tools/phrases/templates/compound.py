"""Templates with two verbs: infinitives, relative clauses, subordinate clauses and coordination."""

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
    Pronoun,
    Tense,
    ask,
    infinitive,
    noun_phrase,
    predicate,
    say,
    stop,
    word,
)
from tools.phrases.templates.action import ACTIVE, HUMAN, INVOLUNTARY, PEOPLE, PERSONAL_ACTIVE, PLAIN
from tools.phrases.words import BE, CONTROL, INTRANSITIVE, MODALS, MOTION, TRANSITIVE, Verb

DENIED = tuple(verb for verb in CONTROL if verb.en in ("want", "like", "try", "forget"))
VOLUNTARY = tuple(verb for verb in (*ACTIVE, *PLAIN) if verb.en not in INVOLUNTARY)
# Verbs that may follow a verb with the same object.
SEQUELS = {
    "buy": "eat wear read repair sell wash hide carry choose",
    "find": "read wear hide open sell wash",
    "choose": "buy wear eat read",
    "take": "eat hide carry open",
    "bring": "open eat cut",
    "look for": "find",
    "see": "buy draw photograph",
    "draw": "paint photograph",
    "write": "read sign",
    "wash": "eat wear cut",
    "open": "close read fill",
    "prepare": "eat serve cut",
    "steal": "hide eat sell",
    "catch": "photograph draw",
    "feed": "photograph call",
}
PAIRS = tuple(
    (first, second, shared)
    for first in TRANSITIVE
    for second in TRANSITIVE
    if second.en in SEQUELS.get(first.en, "").split()
    and (shared := tuple(noun for noun in first.objects if noun in second.objects))
)


def _control(draw: Draw, verb: Verb, tense: Tense = "present", *, negation: Negation = "") -> Clause:
    """Someone who wants, tries or forgets to do something."""
    doing = draw.one(VOLUNTARY)
    subject = draw.subject([noun for noun in doing.subjects if noun in PEOPLE] or HUMAN, pronouns=0.4, adjective=0.1)
    denied = bool(negation) and (verb in MODALS or verb.en in ("want", "like"))  # il ne peut pas boire de lait
    thing = draw.object(doing, negative=denied, adjective=0.25) if doing.objects else EMPTY
    act = infinitive(doing, subject, thing)
    tail = draw.whereabouts(subject, doing) if not doing.objects else EMPTY
    return Clause(subject=subject, verb=verb, object=act, tail=tail, tense=tense, negation=negation)


def _denial(draw: Draw, verb: Verb) -> Negation:
    """Perhaps `not`, for verbs whose negation is idiomatic: not `i do not hope to`."""
    return draw.pick("", "not") if verb in DENIED or verb in MODALS else ""


def wants(draw: Draw) -> Phrase:
    """She wants to buy a car."""
    return stop(_control(draw, draw.one(CONTROL)).statement())


def wants_not(draw: Draw) -> Phrase:
    """The boy does not like to wash his shirt."""
    return stop(_control(draw, draw.one(DENIED), negation="not").statement())


def wants_it(draw: Draw) -> Phrase:
    """Do you want to dance in the garden?"""
    return ask(_control(draw, draw.one(CONTROL[:8])).question())


def tried(draw: Draw) -> Phrase:
    """He tried to repair the clock."""
    verb = draw.one([verb for verb in CONTROL if not verb.stative])
    return stop(_control(draw, verb, "past", negation=draw.pick("", "", "not")).statement())


def can(draw: Draw) -> Phrase:
    """The boy can read this letter, you must close the door."""
    return stop(_control(draw, draw.one(MODALS)).statement())


def cannot(draw: Draw) -> Phrase:
    """I cannot see the moon, they must not run in the street."""
    return stop(_control(draw, draw.one(MODALS), negation="not").statement())


def can_it(draw: Draw) -> Phrase:
    """Can you open the window?"""
    return ask(_control(draw, MODALS[0]).question())


def wants_her(draw: Draw) -> Phrase:
    """They want to invite us, I cannot help you: the pronoun goes before the infinitive."""
    doing = draw.one(PERSONAL_ACTIVE)
    subject = draw.subject(HUMAN, pronouns=0.4)
    act = infinitive(doing, subject, clitic=draw.pronoun(besides=subject))
    verb = draw.one([*CONTROL[:6], *MODALS])
    return stop(Clause(subject=subject, verb=verb, object=act, negation=_denial(draw, verb)).statement())


def wants_to_go(draw: Draw) -> Phrase:
    """My sister prefers to stay at the hotel."""
    doing = draw.one([verb for verb in MOTION if verb.en in ("go", "come", "return", "stay")])
    subject = draw.subject(HUMAN, pronouns=0.4)
    place = noun_phrase(draw.one(doing.objects), "the")
    act = infinitive(doing, subject, place)
    verb = draw.one([*CONTROL[:6], *MODALS])
    tail = draw.sometimes(draw.future(), 0.5) if verb in MODALS or verb.en in ("want", "hope") else EMPTY
    clause = Clause(subject=subject, verb=verb, object=act, negation=_denial(draw, verb), tail=tail)
    return stop(clause.statement())


def wants_to_rest(draw: Draw) -> Phrase:
    """I want to rest, she cannot get up: the reflexive follows the subject."""
    doing = draw.one([verb for verb in INTRANSITIVE if verb.reflexive])
    subject = draw.subject([noun for noun in doing.subjects if noun in PEOPLE], pronouns=0.6, adjective=0.1)
    verb = draw.one([*CONTROL[:9], *MODALS])
    tail = draw.sometimes(draw.habit(), 0.6)
    act = infinitive(doing, subject)
    return stop(Clause(subject=subject, verb=verb, object=act, negation=_denial(draw, verb), tail=tail).statement())


def _it(thing: Nominal) -> Pronoun:
    """The pronoun for a thing named before: its French gender is known, so `it` is possible."""
    if thing.plural:
        return Pronoun("them", "les", person=5, feminine=thing.feminine, en_object="them", direct="les")
    direct = "la" if thing.feminine else "le"
    return Pronoun("it", direct, person=2, feminine=thing.feminine, en_object="it", direct=direct)


def _sequence(draw: Draw, tense: Tense) -> Phrase | None:
    first, second, things = draw.pick(*PAIRS)
    if tense == "past" and {first.en, second.en} & {"read", "cut"}:
        return None
    noun = draw.one(things)
    determiner = "this" if noun.mass else draw.pick("a", "the", "this", draw.owner(noun))
    thing = noun_phrase(
        noun, determiner, plural=bool(noun.en_plural) and draw.chance(0.3), adjective=draw.maybe(noun, 0.2)
    )
    subject = draw.subject([noun for noun in first.subjects if noun in second.subjects], pronouns=0.3, adjective=0.1)
    one = Clause(subject=subject, verb=first, object=thing, tense=tense).statement()
    two = Clause(subject=subject, verb=second, clitic=_it(thing), tense=tense)
    link = frozenset({(second.key, noun.key)})
    after = two.predicate()
    return stop(say("{a} and {b}", "{a} et {b}", a=one, b=replace(after, links=after.links | link)))


def does_both(draw: Draw) -> Phrase | None:
    """He buys the bread and eats it: et le mange."""
    return _sequence(draw, "present")


def did_both(draw: Draw) -> Phrase | None:
    """She found a letter and hid it: et l'a cachée."""
    return _sequence(draw, "past")


def is_one_who(draw: Draw) -> Phrase | None:
    """The man who sells apples is tall."""
    verb = draw.one(TRANSITIVE)
    noun = draw.one([noun for noun in verb.subjects if noun in PEOPLE and noun.group != "kin"])
    subject = noun_phrase(noun, draw.pick("the", "this"), plural=draw.chance(0.3))
    inner = Clause(subject=subject, verb=verb, object=draw.object(verb, adjective=0.2)).predicate()
    adjective = draw.quality(noun)
    if adjective is None or adjective.key in inner.lemmas:
        return None
    whole = Clause(subject=subject, verb=BE, object=predicate(subject, adjective)).predicate()
    return say("{s} who {i} {w}.", "{s} qui {i} {w}.", s=subject, i=inner, w=whole)


def sees_one_who(draw: Draw) -> Phrase:
    """We know a girl who sings well."""
    seer = draw.one([verb for verb in TRANSITIVE if verb.en in ("know", "see", "meet", "help", "look at", "invite")])
    subject = draw.subject([noun for noun in seer.subjects if noun in PEOPLE], pronouns=0.6, adjective=0)
    verb = draw.one(PLAIN)
    people = [noun for noun in verb.subjects if noun.group in ("person", "worker")] or [words.NOUNS["girl"]]
    seen = noun_phrase(draw.one(people), draw.pick("a", "the"), plural=draw.chance(0.3))
    outer = Clause(subject=subject, verb=seer, object=seen).statement()
    adverb = draw.manner(verb, seen) if draw.chance(0.6) else None
    tail = draw.habit() if adverb is None else EMPTY
    inner = Clause(subject=seen, verb=verb, adverb=adverb, tail=tail).predicate()
    return say("{o} who {i}.", "{o} qui {i}.", o=outer, i=inner)


def is_what_one(draw: Draw) -> Phrase | None:
    """The book that she reads is interesting; the letters that he wrote were long: les lettres qu'il a écrites."""
    verb = draw.one(ACTIVE)
    noun = draw.one([noun for noun in verb.objects if noun.en_plural or noun.mass])
    adjective = draw.quality(noun)
    tense: Tense = draw.pick("present", "past")
    if adjective is None or (tense == "past" and verb.en_past == verb.en):
        return None
    plural = bool(noun.en_plural) and draw.chance(0.4)
    thing = noun_phrase(noun, "the", plural=plural)
    gap = Pronoun("", "", person=thing.person, feminine=thing.feminine)  # que stands before, so the participle agrees
    inner = Clause(subject=draw.subject(verb.subjects, pronouns=0.6, adjective=0), verb=verb, clitic=gap, tense=tense)
    if inner.subject.head == noun.key:
        return None
    said = inner.statement()
    said = replace(said, links=said.links | {(verb.key, noun.key)})
    whole = Clause(subject=thing, verb=BE, object=predicate(thing, adjective)).predicate()
    return say("{t} that {i} {w}.", "{t} que {i} {w}.", t=thing, i=said, w=whole)


def thinks_that(draw: Draw) -> Phrase | None:
    """I think that the soup is cold."""
    noun = draw.noun("people", "pet", "food", "drink", "goods", "building", "event", "speech")
    adjective = draw.quality(noun)
    if adjective is None:
        return None
    inner_subject = draw.definite(noun)
    if inner_subject.en.startswith("that "):  # think that that …
        return None
    inner = Clause(subject=inner_subject, verb=BE, object=predicate(inner_subject, adjective)).statement()
    outer = Clause(
        subject=draw.subject(words.nouns("kin", "worker"), pronouns=0.6), verb=draw.one(THINKING)
    ).statement()
    return say("{o} that {i}.", "{o} que {i}.", o=outer, i=inner)


def because(draw: Draw) -> Phrase:
    """The boy is happy because he plays in the garden."""
    subject = draw.subject(words.nouns("kin", "child", "boy", "girl"), pronouns=0.4)
    be = Clause(subject=subject, verb=BE, object=predicate(subject, draw.one(FEELINGS))).statement()
    verb = draw.one([verb for verb in PLAIN if words.NOUNS["uncle"] in verb.subjects and verb.en != "smoke"])
    doing = Clause(subject=_pronoun_for(subject), verb=verb, negation=draw.pick("", "", "not"))
    manner = draw.manner(verb, subject) if draw.chance(0.6) else None
    tail = draw.habit() if manner is None else EMPTY
    why = replace(doing, adverb=manner, tail=tail).statement()
    return say("{b} because {w}.", "{b} parce que {w}.", b=be, w=why)


def _pronoun_for(subject: Nominal) -> Nominal:
    """The pronoun that refers to the subject: he, she or they."""
    if isinstance(subject, Pronoun):
        return subject
    if subject.plural:
        return Nominal("they", "elles" if subject.feminine else "ils", person=5, feminine=subject.feminine)
    return Nominal("she", "elle", feminine=True) if subject.feminine else Nominal("he", "il")


def whenever(draw: Draw) -> Phrase:
    """When it is raining, the cat sleeps in the kitchen."""
    verb = draw.one(PLAIN)
    subject = draw.subject(verb.subjects, pronouns=0.4, adjective=0)
    clause = Clause(subject=subject, verb=verb, tail=draw.whereabouts(subject, verb), negation=draw.pick("", "", "not"))
    return say("when {w}, {c}.", "quand {w}, {c}.", w=word(draw.one(words.WEATHER)), c=clause.statement())


def but(draw: Draw) -> Phrase:
    """My brother likes tea but he hates coffee."""
    likes = [verb for verb in TRANSITIVE if "generic" in verb.flags]
    first = draw.one(likes[:2])
    subject = draw.subject(words.nouns("kin", "worker"), pronouns=0.4, adjective=0)
    one = Clause(subject=subject, verb=first, object=_kind(draw)).statement()
    hates = Clause(subject=_pronoun_for(subject), verb=likes[2], object=_kind(draw))
    dislikes = Clause(subject=_pronoun_for(subject), verb=likes[0], object=_kind(draw), negation="not")
    return say("{a} but {b}.", "{a} mais {b}.", a=one, b=draw.pick(hates, dislikes).statement())


def _kind(draw: Draw) -> Nominal:
    """A kind of thing as a whole: cats, les chats; tea, le thé."""
    noun = draw.noun("pet", "fruit", "vegetable", "food", "drink", "insect", "wolf", "mouse", "horse", "bird")
    return noun_phrase(noun, "generic", plural=not noun.mass, adjective=draw.maybe(noun, 0.2))


def prefers(draw: Draw) -> Phrase:
    """I prefer tea to coffee: le thé au café."""
    subject = draw.subject(HUMAN, pronouns=0.4, adjective=0.1)
    kinds = draw.pick(("drink",), ("fruit",), ("pet", "bird"), ("food",), ("vegetable",), ("clothes",), ("dish",))
    first, second = draw.noun(*kinds), draw.noun(*kinds)
    if first is second:
        second = draw.noun("fruit")
    one, two = (noun_phrase(noun, "generic", plural=not noun.mass) for noun in (first, second))
    to = say("to {t}", "à {t}", t=two)
    verb = next(verb for verb in CONTROL if verb.en == "prefer")
    clause = Clause(subject=subject, verb=replace(verb, prepositions=("", "")), object=one, tail=to)
    return stop(clause.statement()) if draw.chance(0.6) else ask(clause.question())


def please(draw: Draw) -> Phrase:
    """Close the door, please; do not eat this cake."""
    verb = draw.one([verb for verb in ACTIVE if verb.en not in INVOLUNTARY])
    thing = draw.known(verb, adjective=0.2)
    form = french.present(verb.infinitive)[4]
    act = Phrase(verb.en, form, frozenset({verb.key}))
    if draw.chance(0.4):
        return _linked(say("do not {v} {t}.", "ne {v} pas {t}.", v=act, t=thing), verb, thing.head)
    return _linked(say("{v} {t}, please.", "{v} {t}, s'il vous plaît.", v=act, t=thing), verb, thing.head)


def lets(draw: Draw) -> Phrase:
    """Let's eat this cake: mangeons."""
    verb = draw.one([verb for verb in ACTIVE if verb.en not in INVOLUNTARY])
    thing = draw.known(verb, adjective=0.3)
    act = Phrase(verb.en, french.present(verb.infinitive)[3], frozenset({verb.key}))
    return _linked(say("let's {v} {t}.", "{v} {t}.", v=act, t=thing), verb, thing.head)


def _linked(phrase: Phrase, verb: Verb, noun: str) -> Phrase:
    return replace(phrase, links=phrase.links | {(verb.key, noun)})


def event_starts(draw: Draw) -> Phrase:
    """The concert begins at eight o'clock on mondays."""
    event = draw.definite(draw.noun("film", "concert", "lesson", "party", "meeting", "match"), adjective=0.3)
    verb = draw.one([verb for verb in TRANSITIVE if verb.en in ("begin", "finish")])
    hour = draw.number(10)
    at = Phrase(f"at {hour.en} o'clock", f"à {hour.fr} heures", frozenset({hour.key}))
    tense: Tense = draw.pick("present", "past", "future")
    day = draw.past() if tense == "past" else draw.future() if tense == "future" else draw.habit()
    when = say("{a} {d}", "{a} {d}", a=at, d=draw.sometimes(day, 0.5) if day.en != "soon" else EMPTY)
    return stop(Clause(subject=event, verb=verb, tail=when, tense=tense).statement())


THINKING = (
    Verb("think", "penser", "thought", "thought", kind="verb"),
    Verb("believe", "croire", "believed", "believed", kind="verb"),
    Verb("know", "savoir", "knew", "known", kind="verb"),
)
FEELINGS = tuple(words.ADJECTIVES[name] for name in lexicon.FEELINGS.split())

TEMPLATES = (
    wants, wants_not, wants_it, tried, can, cannot, can_it, wants_her, wants_to_go, wants_to_rest, does_both, did_both,
    is_one_who, sees_one_who, is_what_one, thinks_that, because, whenever, but, prefers, please, lets, event_starts,
)  # fmt: skip
