"""`relatives`: answers stand in their contexts, and only a name tells the places apart."""

from __future__ import annotations

import re

import pytest

from headway.data.questions import Question
from headway.data.synthetic.relatives import CITIES, LONGER, PEOPLE, SPLITS, TRAINED, documents


def clauses(context: str) -> int:
    return sum(context.count(f" {word} ") for word in ("who", "whose"))


def places(context: str, names: tuple[str, ...]) -> list[tuple[int, str]]:
    """Where each of the names begins, in order."""
    return sorted((m.start(), name) for name in names for m in re.finditer(rf"(?<!\S){name}(?!\S)", context))


def named(asked: Question) -> str:
    """The person or the city of the question."""
    (found,) = [name for name in (*PEOPLE, *CITIES) if f" {name} " in asked.question]
    return found


def wanted(asked: Question) -> tuple[str, ...]:
    return PEOPLE if asked.question.startswith("who ") else CITIES


def about_the_subject(asked: Question) -> str:
    """The answer of a shortcut: the subject, or its place, whatever the question names."""
    return places(asked.context, wanted(asked))[0 if wanted(asked) is PEOPLE else -1][1]


def nearest(asked: Question) -> str:
    """The answer of a shortcut: the person or city nearest to the one that the question names."""
    ((at, _),) = places(asked.context, (named(asked),))
    return min(places(asked.context, wanted(asked)), key=lambda each: abs(each[0] - at))[1]


def without_order(asked: Question) -> str:
    """The answer of a shortcut: a person or city of the context, chosen without looking at their order."""
    return sorted({name for _, name in places(asked.context, wanted(asked))})[0]


def exact_match(rule, split: str) -> float:
    return sum(rule(asked) == asked.answers[0] for asked in documents(split)) / len(documents(split))


def test_answers_stand_in_their_contexts_once():
    for split in SPLITS:
        for asked in documents(split)[:300]:
            (answer,), (start,) = asked.answers, asked.starts
            assert asked.context[start : start + len(answer)] == answer
            assert answer in (*PEOPLE, *CITIES)
            assert f" {asked.context} ".count(f" {answer} ") == 1


def test_the_answer_is_what_the_sentence_says():
    for split in SPLITS:
        for asked in documents(split)[:300]:
            person, city = sorted((named(asked), asked.answers[0]), key=PEOPLE.__contains__, reverse=True)
            if asked.context.startswith(f"{person} "):
                assert re.search(rf", is \w+ {city}( this \w+| today)? \.$", asked.context)
            else:
                assert re.search(rf" whose \w+ {person}( from [A-Z][A-Za-z ]*?)? is \w+ {city} ,", asked.context)


def test_splits_have_the_clauses_they_say():
    assert {clauses(asked.context) for asked in documents("test")} == set(TRAINED)
    for split, count in LONGER.items():
        assert all(clauses(asked.context) == count for asked in documents(split))


@pytest.mark.parametrize("rule", [about_the_subject, nearest, without_order])
def test_a_shortcut_answers_little_more_than_half(rule):
    assert 0.25 < exact_match(rule, "test") < 0.6
    for split in LONGER:
        assert exact_match(rule, split) < 0.6


@pytest.mark.parametrize("split", ["val", "test"])
def test_sentences_with_clauses_are_in_one_split_only(split):
    seen = {asked.context for asked in documents("train") if clauses(asked.context)}
    assert not seen & {asked.context for asked in documents(split)}


def test_the_question_names_the_person_or_the_place_that_it_links():
    for asked in documents("test"):
        assert named(asked) in asked.context
        assert named(asked) != asked.answers[0]
