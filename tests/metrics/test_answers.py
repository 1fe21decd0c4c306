"""Exact match and F1 of answers, held to the SQuAD metrics of transformers on stored cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.metrics.answers import answer_report, best_scores, best_threshold, normalised

CASES = json.loads((Path(__file__).parent / "answer_cases.json").read_text())


def test_the_cases_are_of_transformers():
    assert CASES["reference"].startswith("transformers ")
    assert len(CASES["cases"]) >= 200


def test_every_case_has_the_figures_of_the_reference():
    for case in CASES["cases"]:
        assert best_scores(case["references"], case["answer"]) == pytest.approx(
            (case["exact"], case["f1"]), abs=1e-6
        ), case


def test_the_whole_set_has_the_figures_of_the_reference():
    references = {str(n): case["references"] for n, case in enumerate(CASES["cases"])}
    found = answer_report(references, {str(n): case["answer"] for n, case in enumerate(CASES["cases"])})
    whole = CASES["whole"]
    assert (100 * found.exact, 100 * found.f1, found.questions) == pytest.approx(
        (whole["exact"], whole["f1"], whole["total"]), abs=1e-6
    )
    for part, name in ((found.answerable, "HasAns"), (found.unanswerable, "NoAns")):
        assert (100 * part.exact, 100 * part.f1, part.questions) == pytest.approx(
            (whole[f"{name}_exact"], whole[f"{name}_f1"], whole[f"{name}_total"]), abs=1e-6
        )


def test_case_punctuation_articles_and_spaces_do_not_count():
    assert normalised("  The  Great-Wall, of a China! ") == "greatwall of china"


def test_the_threshold_gives_the_best_f1():
    answers = {"a": "x", "b": "y", "c": "z", "d": "w"}
    references = {"a": ["x"], "b": ["y"], "c": [], "d": []}
    gaps = {"a": -3.0, "b": -1.0, "c": 0.5, "d": 2.0}
    assert best_threshold(gaps, answers, references) == -0.25
    assert best_threshold(gaps, answers, dict.fromkeys("abcd", ())) < -3.0
    assert best_threshold(gaps, answers, {"a": ["x"], "b": ["y"], "c": ["z"], "d": ["w"]}) > 2.0
    assert best_threshold({}, {}, {}) == 0.0
