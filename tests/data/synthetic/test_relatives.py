"""`relatives`: answers stand in their contexts, and only the subject tells the places apart."""

from __future__ import annotations

from headway.data.synthetic.relatives import CITIES, LONGER, PEOPLE, SPLITS, TRAINED, documents


def clauses(context: str) -> list[int]:
    return [part.count(" who ") + part.count(" whom ") for part in context.split(" .")[:2]]


def test_answers_stand_in_their_contexts():
    for split in SPLITS:
        for asked in documents(split)[:300]:
            (answer,), (start,) = asked.answers, asked.starts
            assert asked.context[start : start + len(answer)] == answer
            assert answer in (*PEOPLE, *CITIES)


def test_splits_have_the_clauses_they_say():
    assert {count for asked in documents("test") for count in clauses(asked.context)} == set(TRAINED)
    for split, count in LONGER.items():
        assert all(clauses(asked.context) == [count, count] for asked in documents(split))


def test_both_subjects_do_the_same_and_both_are_asked_about():
    first = 0
    for asked in documents("test"):
        left, right = (part.partition(" , is ")[2] for part in asked.context.split(" .")[:2])
        assert left.split()[0] == right.split()[0]
        first += asked.starts[0] < asked.context.index(" . ")
    assert 0.4 < first / len(documents("test")) < 0.6
