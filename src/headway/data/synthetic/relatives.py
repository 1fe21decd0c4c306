"""Built-in `relatives`: questions about sentences with relative clauses between a subject and what it does.

"John , the artist whose sister Anna is visiting Vienna , who met Otto in Oslo , is visiting New York ." Asked is where
John or Anna is, or who is where. The people of a clause do the same as the subject, so that a name has to be linked
with its place, and the subject's is behind all its clauses: the distance grows with their number. Training contexts
have up to three clauses; the splits `clauses-N` have N, and ask about the subject only.
"""

from __future__ import annotations

import random
from functools import cache

from headway.data.questions import Question

TRAINED = (0, 1, 2, 3)  # clauses in train, val and test
COUNTS = {"train": 16_000, "val": 500, "test": 1_000}
LONGER = {f"clauses-{clauses}": clauses for clauses in (4, 6, 8, 12, 16)}
EACH = 500  # questions of each longer split
SPLITS = (*COUNTS, *LONGER)
PEOPLE = ("John", "Mary", "Anna", "Otto", "Lisa", "Paul", "Emma", "Karl")
JOBS = ("artist", "doctor", "pilot", "teacher", "baker", "lawyer", "singer", "painter", "nurse", "writer")
RELATIONS = ("sister", "brother", "friend", "neighbour", "cousin")
CITIES = ("Vienna", "New York", "Rome", "Oslo", "Paris", "Los Angeles", "Lima", "Rio de Janeiro")
SAME = "whose {relation} {person} is {verb} {city}"  # a clause whose person does what the subject does
OTHER = (
    "who has painted many murals in {city}",
    "who met {person} in {city}",
    "who once lived in {city}",
    "who has a house in {city}",
)
SUBJECT = 1 / 3  # of the questions where clauses offer others: about the subject
VERBS = ("visiting", "leaving", "painting")
TIMES = ("", "", "this summer", "today", "this week")


@cache
def documents(split: str) -> tuple[Question, ...]:
    """The questions of a split, the same each time."""
    draw = random.Random(f"relatives 1 {split}")
    longer = split in LONGER
    return tuple(
        _question(draw, f"{split}-{number}", LONGER[split] if longer else draw.choice(TRAINED), subject_only=longer)
        for number in range(EACH if longer else COUNTS[split])
    )


def _question(draw: random.Random, name: str, clauses: int, *, subject_only: bool) -> Question:
    """A sentence, and a question about its subject or about a person of one of its clauses."""
    subject, *others = draw.sample(PEOPLE, len(PEOPLE))
    place, *elsewhere = draw.sample(CITIES, len(CITIES))
    verb, time = draw.choice(VERBS), draw.choice(TIMES)
    context = f"{subject} , the {draw.choice(JOBS)}"
    facts: list[tuple[str, int, str, int]] = []  # person and city, each with its first character
    for number in range(clauses):  # the people and cities of many clauses repeat, never the subject and its place
        person, city = others[number % len(others)], elsewhere[number % len(elsewhere)]
        same = draw.random() < 0.6
        form = SAME if same else draw.choice(OTHER)
        clause = form.format(relation=draw.choice(RELATIONS), person=person, verb=verb, city=city)
        if same:
            at = len(context) + 1
            facts.append((person, at + clause.index(person), city, at + clause.index(city)))
        context += f" {clause} ,"
    context += f"{'' if clauses else ' ,'} is {verb} "
    main = (subject, 0, place, len(context))
    context += f"{place}{f' {time}' if time else ''} ."
    chosen = main if subject_only or not facts or draw.random() < SUBJECT else draw.choice(facts)
    who, at, where, there = chosen
    if draw.random() < 0.5:
        asked = f"{'where' if verb == 'visiting' else 'what'} is {who} {verb} ?"
        return Question(name, asked, context, (where,), (there,))
    return Question(name, f"who is {verb} {where} ?", context, (who,), (at,))
