"""Entities and their F1, held to seqeval on stored cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.metrics.entities import Entity, entities, entity_report

CASES = json.loads((Path(__file__).parent / "entity_cases.json").read_text())


def test_the_cases_are_seqevals():
    assert CASES["reference"].startswith("seqeval ")
    assert len(CASES["cases"]) >= 200


def test_every_case_has_seqevals_figures():
    for case in CASES["cases"]:
        found = entity_report(case["true"], case["predicted"])
        figures = (found.all.precision, found.all.recall, found.all.f1)
        assert figures == pytest.approx((case["precision"], case["recall"], case["f1"]), abs=1e-6), case
        assert {name: each.f1 for name, each in found.by_type.items()} == pytest.approx(case["by_type"], abs=1e-6)


def test_every_case_has_seqevals_entities():
    for case in CASES["cases"]:
        for tags, expected in zip(case["true"], case["entities"], strict=True):
            assert [[each.type, each.start, each.stop - 1] for each in entities(tags)] == expected, tags


def test_an_entity_without_a_beginning_begins_at_its_first_word():
    assert entities(["O", "I-PER", "I-PER", "I-LOC", "O"]) == [Entity("PER", 1, 3), Entity("LOC", 3, 4)]


def test_a_second_b_begins_another_entity():
    assert entities(["B-PER", "B-PER", "I-PER"]) == [Entity("PER", 0, 1), Entity("PER", 1, 3)]


def test_sentences_without_entities_have_a_score_of_zero():
    assert entity_report([["O"]], [["O"]]).all.f1 == 0.0
