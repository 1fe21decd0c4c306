"""Templates with one verb, in every tense, as statements, questions and negations."""

from __future__ import annotations

from dataclasses import replace

from tools.phrases import words
from tools.phrases.draw import Draw
from tools.phrases.grammar import (
    EMPTY,
    Clause,
    Negation,
    Nominal,
    Phrase,
    Tense,
    ask,
    noun_phrase,
    say,
    stop,
    word,
)
from tools.phrases.words import DATIVE, INTRANSITIVE, MOTION, PLAY, PREPOSITIONAL, TRANSITIVE, Verb

ACTIVE = tuple(verb for verb in TRANSITIVE if not verb.stative)
CLEAR_PAST = tuple(verb for verb in ACTIVE if verb.en_past != verb.en)  # not `they read the book`
PERSONAL = tuple(verb for verb in TRANSITIVE if any(noun.group == "kin" for noun in verb.objects))
PERSONAL_ACTIVE = tuple(verb for verb in PERSONAL if not verb.stative)
REFLEXIVE = tuple(verb for verb in INTRANSITIVE if verb.reflexive)
PLAIN = tuple(verb for verb in INTRANSITIVE if not verb.reflexive)
TWO_PLACE = tuple(verb for verb in PREPOSITIONAL if not verb.stative)
DENIED = tuple(verb for verb in TRANSITIVE if verb.en not in ("love", "hate"))
INVOLUNTARY = ("lose", "break", "receive", "hear", "forget", "see")
WITHOUT_PLACE = ("wake up", "get up", "hurry", "go to bed", "get dressed")
EVER = frozenset(habit.key for habit in words.HABITS)  # never every day
HUMAN = words.nouns("people")
PEOPLE = frozenset(HUMAN)


def _time(draw: Draw, tense: Tense) -> Phrase:
    if tense in ("past", "perfect"):
        return draw.past()
    return draw.future() if tense == "future" else draw.habit()


def _doing(draw: Draw, verb: Verb, tense: Tense = "present", *, pronouns: float = 0.25) -> Clause:
    """A verb without an object, with a place, a time, a manner or nothing after it."""
    subject = draw.subject(verb.subjects, pronouns=pronouns)
    clause = Clause(subject=subject, verb=verb, tense=tense)
    kind = draw.pick("place", "place", "time", "manner", "scene")
    manner = draw.manner(verb, subject)
    if kind == "manner" and manner:
        return replace(clause, adverb=manner)
    if kind == "scene" and verb.en not in WITHOUT_PLACE:
        return replace(clause, tail=word(draw.one(words.SCENES)))
    if kind == "place" and verb.en not in WITHOUT_PLACE:
        return replace(clause, tail=draw.whereabouts(subject, verb))
    if tense == "progressive":
        return replace(clause, tail=word(draw.one(NOW)))
    if tense == "present" and verb.en in WITHOUT_PLACE:
        return replace(clause, tail=word(draw.one(words.HABITS)))
    return replace(clause, tail=_time(draw, tense))


def _taking(
    draw: Draw, verb: Verb, tense: Tense = "present", *, pronouns: float = 0.25, negation: Negation = ""
) -> Clause:
    """A verb with its object, and sometimes a time."""
    subject = draw.subject(verb.subjects, pronouns=pronouns)
    tail = draw.sometimes(_time(draw, tense), 0.35 if tense not in ("progressive", "perfect") else 0)
    thing = draw.object(verb, negative=bool(negation))
    if thing.head == subject.head and thing.head:
        thing = draw.object(verb, negative=bool(negation))
    return Clause(
        subject=subject, verb=verb, object=thing, tail=EMPTY if verb.stative else tail, tense=tense, negation=negation
    )


def _going(draw: Draw, tense: Tense = "present", *, pronouns: float = 0.3) -> Clause:
    """A verb of motion with its place."""
    verb = draw.one(MOTION)
    noun = draw.one(verb.objects)
    place = noun_phrase(noun, draw.pick("the", "the", "the", "this"), adjective=draw.maybe(noun, 0.3))
    subject = draw.subject(verb.subjects, pronouns=pronouns)
    tail = draw.sometimes(_time(draw, tense), 0.6 if tense != "progressive" else 0)
    return Clause(subject=subject, verb=verb, object=place, tail=tail, tense=tense)


def _about(draw: Draw, tense: Tense = "present", *, negation: Negation = "") -> Clause:
    """A verb whose object takes a preposition."""
    verb = draw.one(PREPOSITIONAL if tense == "present" else TWO_PLACE)
    subject = draw.subject(verb.subjects, pronouns=0.0 if verb.en == "belong" else 0.25)
    other = draw.definite(draw.one(verb.objects), adjective=0.2)
    return Clause(subject=subject, verb=verb, object=other, tense=tense, negation=negation)


def _giving(draw: Draw, tense: Tense, *, negation: Negation = "") -> Clause:
    """A ditransitive verb with its object and its recipient."""
    verb = draw.one(DATIVE)
    return Clause(
        subject=draw.subject(HUMAN, pronouns=0.3, adjective=0.1),
        verb=verb,
        object=draw.object(verb, negative=bool(negation), adjective=0.2),
        tense=tense,
        negation=negation,
    )


def _meeting(draw: Draw, tense: Tense = "present", *, negation: Negation = "") -> Clause:
    """A verb whose object is a pronoun: the man sees her."""
    verb = draw.one(PERSONAL if tense == "present" else PERSONAL_ACTIVE)
    subject = draw.subject([noun for noun in verb.subjects if noun in PEOPLE], pronouns=0.3, adjective=0.2)
    tail = draw.sometimes(_time(draw, tense), 0.5)
    return Clause(
        subject=subject,
        verb=verb,
        clitic=draw.pronoun(besides=subject),
        tail=EMPTY if verb.stative else tail,
        tense=tense,
        negation=negation,
    )


def _never(clause: Clause, draw: Draw) -> Phrase:
    """The clause with never, without a time such as `every day`."""
    tail = draw.occasion() if clause.tail.lemmas & EVER else clause.tail
    return replace(clause, negation="never", tail=tail).statement()


def _denied(clause: Clause, draw: Draw) -> Phrase:
    """The clause with not, or with never."""
    return _never(clause, draw) if draw.chance(0.4) else clause.statement()


def does(draw: Draw) -> Phrase:
    """The cat sleeps on the sofa."""
    return stop(_doing(draw, draw.one(PLAIN)).statement())


def is_doing(draw: Draw) -> Phrase:
    """The cat is sleeping in the garden: the same French present."""
    return stop(_doing(draw, draw.one(INTRANSITIVE), "progressive").statement())


def often_does(draw: Draw) -> Phrase:
    """She often dances in the kitchen."""
    verb = draw.one(INTRANSITIVE)
    subject = draw.subject(verb.subjects, pronouns=0.4)
    tail = draw.pick(EMPTY, draw.occasion())
    if verb.en not in WITHOUT_PLACE and draw.chance(0.4):
        tail = draw.whereabouts(subject, verb)
    return stop(Clause(subject=subject, verb=verb, adverb=draw.one(words.FREQUENCIES), tail=tail).statement())


def does_not(draw: Draw) -> Phrase:
    """The baby does not sleep well."""
    return stop(replace(_doing(draw, draw.one(PLAIN)), negation="not").statement())


def never_does(draw: Draw) -> Phrase:
    """He never sings in the bathroom."""
    clause = replace(_doing(draw, draw.one(INTRANSITIVE), pronouns=0.4), adverb=None)
    return stop(_never(clause, draw))


def does_it(draw: Draw) -> Phrase:
    """Does the baby sleep well?"""
    return ask(_doing(draw, draw.one(INTRANSITIVE)).question())


def did(draw: Draw) -> Phrase:
    """We danced in the garden yesterday."""
    return stop(_doing(draw, draw.one(PLAIN), "past").statement())


def did_not(draw: Draw) -> Phrase:
    """The students did not work on monday."""
    return stop(replace(_doing(draw, draw.one(PLAIN), "past"), negation="not").statement())


def did_it(draw: Draw) -> Phrase:
    """Did you sleep well?"""
    return ask(_doing(draw, draw.one(INTRANSITIVE), "past").question())


def will_do(draw: Draw) -> Phrase:
    """They are going to travel next week."""
    return stop(_doing(draw, draw.one(PLAIN), "future").statement())


def why_does(draw: Draw) -> Phrase:
    """Why does the baby cry at night?"""
    clause = _doing(draw, draw.one(INTRANSITIVE), draw.pick("present", "past"))
    return say("why {q}?", "pourquoi {q} ?", q=clause.question())


def where_does(draw: Draw) -> Phrase:
    """Where do the birds sleep in winter?"""
    tense: Tense = draw.pick("present", "past", "future")
    verb = draw.one([*INTRANSITIVE, *ACTIVE])
    if verb.objects:
        clause = replace(_taking(draw, verb, tense), tail=EMPTY)
    else:
        clause = Clause(
            subject=draw.subject(verb.subjects, pronouns=0.3), verb=verb, tense=tense, tail=_time(draw, tense)
        )
    return say("where {q}?", "où {q} ?", q=clause.question())


def when_does(draw: Draw) -> Phrase:
    """When are you going to visit the museum?"""
    tense: Tense = draw.pick("present", "past", "future")
    clause = draw.pick(_taking(draw, draw.one(ACTIVE), tense), _going(draw, tense))
    return say("when {q}?", "quand {q} ?", q=replace(clause, tail=EMPTY).question())


def who_does(draw: Draw) -> Phrase:
    """Who eats the cake? Who danced yesterday?"""
    tense: Tense = draw.pick("present", "past")
    who = Nominal("who", "qui")
    clause = draw.pick(
        _taking(draw, draw.one(TRANSITIVE if tense == "present" else CLEAR_PAST), tense),
        _doing(draw, draw.one(PLAIN), tense),
    )
    return ask(replace(clause, subject=who).statement())


def reflexive(draw: Draw) -> Phrase:
    """I get up at night, the children wake up."""
    return stop(_doing(draw, draw.one(REFLEXIVE), pronouns=0.5).statement())


def reflexive_past(draw: Draw) -> Phrase:
    """She woke up yesterday morning: the participle agrees."""
    return stop(_doing(draw, draw.one(REFLEXIVE), "past", pronouns=0.4).statement())


def reflexive_not(draw: Draw) -> Phrase:
    """We did not rest, he does not hurry."""
    clause = _doing(draw, draw.one(REFLEXIVE), draw.pick("present", "past", "future"), pronouns=0.4)
    return stop(replace(clause, negation="not").statement())


def takes(draw: Draw) -> Phrase:
    """The girl reads a long letter."""
    return stop(_taking(draw, draw.one(TRANSITIVE), pronouns=0).statement())


def pronoun_takes(draw: Draw) -> Phrase:
    """I buy three red apples."""
    return stop(_taking(draw, draw.one(TRANSITIVE), pronouns=1).statement())


def is_taking(draw: Draw) -> Phrase:
    """The man is repairing the door."""
    return stop(_taking(draw, draw.one(ACTIVE), "progressive").statement())


def takes_not(draw: Draw) -> Phrase:
    """She does not eat any meat: pas de viande."""
    return stop(_taking(draw, draw.one(DENIED), negation="not").statement())


def never_takes(draw: Draw) -> Phrase:
    """My uncle never drinks the milk."""
    clause = _taking(draw, draw.one(DENIED))
    return stop(_never(replace(clause, object=draw.known(clause.verb)), draw))


def takes_it(draw: Draw) -> Phrase:
    """Does the boy like chocolate?"""
    return ask(_taking(draw, draw.one(TRANSITIVE)).question())


def took(draw: Draw) -> Phrase:
    """The dog hid the ball."""
    return stop(_taking(draw, draw.one(CLEAR_PAST), "past").statement())


def took_not(draw: Draw) -> Phrase:
    """I did not read the newspaper."""
    return stop(_taking(draw, draw.one(ACTIVE), "past", negation="not").statement())


def took_it(draw: Draw) -> Phrase:
    """Did you close the window?"""
    return ask(_taking(draw, draw.one(ACTIVE), "past").question())


def has_taken(draw: Draw) -> Phrase:
    """We have already eaten the cake."""
    clause = _taking(draw, draw.one(ACTIVE), "perfect")
    return stop(replace(clause, adverb=ALREADY).statement())


def will_take(draw: Draw) -> Phrase:
    """He is going to sell his car."""
    return stop(_taking(draw, draw.one(ACTIVE), "future").statement())


def will_take_not(draw: Draw) -> Phrase:
    """They are not going to buy the house."""
    return stop(_taking(draw, draw.one(ACTIVE), "future", negation="not").statement())


def will_take_it(draw: Draw) -> Phrase:
    """Are you going to open the box?"""
    return ask(_taking(draw, draw.one(ACTIVE), "future").question())


def what_does(draw: Draw) -> Phrase:
    """What does the boy eat in the kitchen?"""
    verb = draw.one([verb for verb in ACTIVE if verb.en not in ("meet", "help", "invite", "thank", "greet", "kiss")])
    tense: Tense = draw.pick("present", "past", "future")
    subject = draw.subject(verb.subjects, pronouns=0.35)
    where = draw.whereabouts(subject)
    tail = draw.pick(_time(draw, tense), where, EMPTY)
    clause = Clause(subject=subject, verb=verb, tense=tense, tail=tail).question()
    return say("what {q}?", "que {q} ?", q=clause)


def knows_her(draw: Draw) -> Phrase:
    """The man sees her."""
    return stop(_meeting(draw).statement())


def knows_her_not(draw: Draw) -> Phrase:
    """She does not know him."""
    return stop(_denied(_meeting(draw, negation="not"), draw))


def met_her(draw: Draw) -> Phrase:
    """I saw them yesterday: the participle agrees with the object before it."""
    return stop(_meeting(draw, "past", negation=draw.pick("", "", "not")).statement())


def will_meet_her(draw: Draw) -> Phrase:
    """We are going to help you."""
    return stop(_meeting(draw, "future", negation=draw.pick("", "", "not")).statement())


def knows_her_it(draw: Draw) -> Phrase:
    """Does the doctor understand you?"""
    return ask(_meeting(draw, draw.pick("present", "past", "future")).question())


def gives(draw: Draw) -> Phrase:
    """The teacher gives a book to the girl."""
    clause = _giving(draw, draw.pick("present", "past", "future"))
    to = say("to {r}", "à {r}", r=draw.definite(draw.one(HUMAN)))
    return stop(replace(clause, tail=to).statement())


def gives_not(draw: Draw) -> Phrase:
    """My aunt does not lend her car to my brother."""
    clause = _giving(draw, draw.pick("present", "past"), negation="not")
    to = say("to {r}", "à {r}", r=draw.definite(draw.one(HUMAN)))
    return stop(replace(clause, tail=to).statement())


def gives_her(draw: Draw) -> Phrase:
    """He gives me a book, we sent them a letter."""
    clause = _giving(draw, draw.pick("present", "past", "future"))
    if clause.verb.en == "explain":  # explains it to me, never explains me it
        clause = replace(clause, verb=DATIVE[0], object=draw.object(DATIVE[0]))
    return stop(replace(clause, receiver=draw.pronoun(besides=clause.subject)).statement())


def goes(draw: Draw) -> Phrase:
    """The children go to the market on mondays."""
    return stop(_going(draw).statement())


def goes_not(draw: Draw) -> Phrase:
    """She does not come to the party."""
    return stop(_denied(replace(_going(draw), negation="not"), draw))


def goes_it(draw: Draw) -> Phrase:
    """Did they return to the hotel?"""
    return ask(_going(draw, draw.pick("present", "past")).question())


def went(draw: Draw) -> Phrase:
    """She went to the market: with être the participle agrees with the subject."""
    return stop(_going(draw, "past").statement())


def went_not(draw: Draw) -> Phrase:
    """We did not arrive at the station yesterday."""
    return stop(replace(_going(draw, "past"), negation="not").statement())


def will_go(draw: Draw) -> Phrase:
    """My sister is going to stay at the hotel."""
    return stop(_going(draw, "future").statement())


def speaks_to(draw: Draw) -> Phrase:
    """The boy obeys his father, this car belongs to my uncle."""
    return stop(_about(draw).statement())


def spoke_to(draw: Draw) -> Phrase:
    """The princess danced with the prince."""
    tense: Tense = draw.pick("past", "future")
    return stop(replace(_about(draw, tense), tail=draw.sometimes(_time(draw, tense), 0.4)).statement())


def speaks_to_it(draw: Draw) -> Phrase:
    """Do you remember this song?"""
    return ask(_about(draw, draw.pick("present", "past", "future")).question())


def speaks_to_not(draw: Draw) -> Phrase:
    """He does not think about the meeting."""
    return stop(_about(draw, draw.pick("present", "past", "future"), negation="not").statement())


def plays_music(draw: Draw) -> Phrase:
    """My sister plays the guitar very well: joue de la guitare."""
    tense: Tense = draw.pick("present", "past", "future")
    music = noun_phrase(draw.noun("instrument"), "the")
    adverb = draw.one(words.FREQUENCIES) if tense == "present" and draw.chance(0.5) else None
    clause = Clause(
        subject=draw.subject(HUMAN, pronouns=0.25),
        verb=replace(PLAY, prepositions=("", "de")),
        object=music,
        tense=tense,
        adverb=adverb,
        tail=draw.sometimes(draw.occasion() if adverb else _time(draw, tense), 0.6),
    )
    return stop(clause.statement())


ALREADY = words.Adverb("already", "déjà", middle=True, kind="adverb")
NOW = (words.Word("now", "maintenant", kind="time"), words.Word("today", "aujourd'hui", kind="time"))

TEMPLATES = (
    does, is_doing, often_does, does_not, never_does, does_it, did, did_not, did_it, will_do, why_does, where_does,
    when_does, who_does, reflexive, reflexive_past, reflexive_not, takes, pronoun_takes, is_taking, takes_not,
    never_takes, takes_it, took, took_not, took_it, has_taken, will_take, will_take_not, will_take_it, what_does,
    knows_her, knows_her_not, met_her, will_meet_her, knows_her_it, gives, gives_not, gives_her, goes, goes_not,
    goes_it, went, went_not, will_go, speaks_to, spoke_to, speaks_to_it, speaks_to_not, plays_music,
)  # fmt: skip
