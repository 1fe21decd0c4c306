"""`relatives`: answers stand in their contexts, and only a name tells the places apart."""

from __future__ import annotations

from headway.data.synthetic.relatives import CITIES, LONGER, PEOPLE, SPLITS, TRAINED, documents


def clauses(context: str) -> int:
    return sum(context.count(f" {word} ") for word in ("who", "whose"))


def test_answers_stand_in_their_contexts_once():
    for split in SPLITS:
        for asked in documents(split)[:300]:
            (answer,), (start,) = asked.answers, asked.starts
            assert asked.context[start : start + len(answer)] == answer
            assert answer in (*PEOPLE, *CITIES)
            assert f" {asked.context} ".count(f" {answer} ") == 1


def test_splits_have_the_clauses_they_say():
    assert {clauses(asked.context) for asked in documents("test")} == set(TRAINED)
    for split, count in LONGER.items():
        assert all(clauses(asked.context) == count for asked in documents(split))


def test_longer_splits_ask_about_the_subject_and_the_others_about_all():
    def about_subject(split):
        found = 0
        for asked in documents(split):
            subject, main = asked.context.split()[0], asked.context.rindex(" is ")
            found += asked.starts[0] > main or asked.answers[0] == subject
        return found / len(documents(split))

    assert all(about_subject(split) == 1 for split in LONGER)
    assert 0.5 < about_subject("test") < 0.85


def test_the_question_names_the_person_or_the_place_that_it_links():
    for asked in documents("test"):
        named = [name for name in (*PEOPLE, *CITIES) if f" {name} " in asked.question]
        assert len(named) == 1
        assert named[0] in asked.context
        assert named[0] != asked.answers[0]
