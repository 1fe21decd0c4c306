"""Built-in `relatives`: questions about sentences with relative clauses between a subject and what it does.

"John , the artist who has painted murals in Vienna , is visiting New York . Mary , the doctor who met Otto in Oslo , is
visiting Rome ." Asked is where John is, or who is in New York; all subjects of a context do the same, so that only the
subject, beyond its clauses, tells the places apart. Every clause has a city of its own to be mistaken for the answer.
Training contexts have up to three clauses a subject, each split `clauses-N` has N.
"""

from __future__ import annotations

import random
from functools import cache

from headway.data.questions import Question

TRAINED = (0, 1, 2, 3)  # clauses of a subject in train, val and test
COUNTS = {"train": 16_000, "val": 500, "test": 1_000}
LONGER = {f"clauses-{clauses}": clauses for clauses in (4, 6, 8, 12, 16)}
EACH = 500  # questions of each longer split
SPLITS = (*COUNTS, *LONGER)
PEOPLE = (
    "John", "Mary", "Anna", "Otto", "Lisa", "Paul", "Emma", "Karl", "Nina", "Hugo", "Ruth", "Ivan", "Clara", "Felix",
)  # fmt: skip
JOBS = ("artist", "doctor", "pilot", "teacher", "baker", "lawyer", "singer", "painter", "nurse", "writer")
CITIES = (
    "Vienna", "New York", "Rome", "Oslo", "Paris", "Los Angeles", "Lima", "Cairo", "Tokyo", "Rio de Janeiro", "Delhi",
    "Berlin", "San Francisco", "Prague", "Madrid", "Hong Kong",
)  # fmt: skip
CLAUSES = (
    "who has painted many murals in {city}",
    "who met {person} in {city}",
    "who once lived in {city}",
    "whom {person} taught in {city}",
    "who has a sister in {city}",
    "who studied with {person} in {city}",
)
MAIN = ("visiting {city}", "working in {city}", "staying in {city}", "looking for {other} in {city}")
TIMES = ("", "", "this summer", "today", "this week")


@cache
def documents(split: str) -> tuple[Question, ...]:
    """The questions of a split, the same each time."""
    draw = random.Random(f"relatives 1 {split}")
    count = COUNTS.get(split, EACH)
    return tuple(_question(draw, f"{split}-{number}", LONGER.get(split)) for number in range(count))


def _question(draw: random.Random, name: str, clauses: int | None) -> Question:
    """A context of two subjects with their clauses, and a question about one of them."""
    people, cities = draw.sample(PEOPLE, len(PEOPLE)), draw.sample(CITIES, len(CITIES))
    subjects, places, others = people[:2], cities[:2], people[3:]
    doing = draw.choice(MAIN)
    verb = doing.partition(" {city}")[0].replace("{other}", people[2])
    time = draw.choice(TIMES)
    parts: list[str] = []
    marks: dict[str, int] = {}  # where each subject and each place begins
    length = 0
    for subject, place in zip(subjects, places, strict=True):
        count = draw.choice(TRAINED) if clauses is None else clauses
        said = [
            draw.choice(CLAUSES).format(person=draw.choice(others), city=draw.choice(cities[2:])) for _ in range(count)
        ]
        between = f" {' , '.join(said)} ," if said else " ,"
        begin = f"{subject} , the {draw.choice(JOBS)}{between} is {verb} "
        end = f"{place}{f' {time}' if time else ''} ."
        marks[subject], marks[place] = length, length + len(begin)
        parts.append(begin + end)
        length += len(begin) + len(end) + 1
    chosen = draw.randrange(2)
    if draw.random() < 0.5:
        question, answer = f"where is {subjects[chosen]} {verb.removesuffix(' in')} ?", places[chosen]
    else:
        question, answer = f"who is {verb} {places[chosen]} ?", subjects[chosen]
    return Question(name, question, " ".join(parts), (answer,), (marks[answer],))
