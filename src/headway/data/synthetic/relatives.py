"""Built-in `relatives`: questions about sentences with relative clauses between a subject and what it does.

"John , the artist whose sister Anna from Rome is visiting Vienna , who met Otto in Oslo , is visiting New York ." Asked
is where John or Anna is, or who is where. The people of a clause do the same as the subject, so that a name has to be
linked with its place. The subject's is behind all its clauses, so that the distance grows with their number, and the
city nearest to a name is often not its place. Training contexts have up to three clauses; the splits `clauses-N` have
N. Half of the questions are about the subject where there are clauses.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import cycle

from headway.data.questions import Question

TRAINED = {0: 1, 1: 3, 2: 3, 3: 3}  # clauses in train, val and test, with their weights
COUNTS = {"train": 16_000, "val": 500, "test": 1_000}
LONGER = {f"clauses-{clauses}": clauses for clauses in (4, 6, 8, 12, 16)}
EACH = 500  # questions of each longer split
SPLITS = (*COUNTS, *LONGER)
PEOPLE = ("John", "Mary", "Anna", "Otto", "Lisa", "Paul", "Emma", "Karl")
JOBS = ("artist", "doctor", "pilot", "teacher", "baker", "lawyer", "singer", "painter", "nurse", "writer")
RELATIONS = ("sister", "brother", "friend", "neighbour", "cousin")
CITIES = ("Vienna", "New York", "Rome", "Oslo", "Paris", "Los Angeles", "Lima", "Rio de Janeiro")
SAME = "whose {relation} {person}{origin} is {verb} {city}"  # a clause whose person does what the subject does
OTHER = (
    "who has painted many murals in {city}",
    "who met {person} in {city}",
    "who once lived in {city}",
    "who has a house in {city}",
)
LINKED = 0.7  # of the clauses that are not asked about: SAME
ORIGIN = 0.5  # of the people of SAME: with another city between them and their place
VERBS = ("visiting", "leaving", "painting")
TIMES = ("", "", "this summer", "today", "this week")


@cache
def documents(split: str) -> tuple[Question, ...]:
    """The questions of a split, the same each time."""
    draw = random.Random(f"relatives 2 {split}")
    if split in LONGER:
        counts = [LONGER[split]] * EACH
    else:
        counts = draw.choices(list(TRAINED), list(TRAINED.values()), k=COUNTS[split])
    return tuple(_question(draw, f"{split}-{number}", clauses) for number, clauses in enumerate(counts))


def _question(draw: random.Random, name: str, clauses: int) -> Question:
    """A sentence, and a question about its subject or about a person of one of its clauses."""
    verb, time = draw.choice(VERBS), draw.choice(TIMES)
    person, *people = draw.sample(PEOPLE, len(PEOPLE))  # the first is the one that the question is about
    city, *cities = draw.sample(CITIES, len(CITIES))
    asked = None if not clauses or draw.random() < 0.5 else draw.randrange(clauses)  # None: the subject
    # Those of many clauses repeat, but never the subject and its place, nor the person of the question and theirs.
    if asked is None:
        subject, place = person, city
    else:
        subject, place, people, cities = people[0], cities[0], people[1:], cities[1:]
    others = zip(cycle(people), cycle(cities), strict=False)
    context, at, there = f"{subject} , the {draw.choice(JOBS)}", 0, 0
    for number in range(clauses):
        one, where = (person, city) if number == asked else next(others)
        form = SAME if number == asked or draw.random() < LINKED else draw.choice(OTHER)
        origin = f" from {draw.choice([each for each in cities if each != where])}" if draw.random() < ORIGIN else ""
        clause = form.format(relation=draw.choice(RELATIONS), person=one, origin=origin, verb=verb, city=where)
        if number == asked:
            at, there = (len(context) + 1 + clause.index(each) for each in (person, city))
        context += f" {clause} ,"
    context += f"{'' if clauses else ' ,'} is {verb} "
    if asked is None:
        there = len(context)
    context += f"{place}{f' {time}' if time else ''} ."
    if draw.random() < 0.5:
        question = f"{'where' if verb == 'visiting' else 'what'} is {person} {verb} ?"
        return Question(name, question, context, (city,), (there,))
    return Question(name, f"who is {verb} {city} ?", context, (person,), (at,))
