"""Word and character error rates: stored cases of jiwer, and properties."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from headway.errors import DataError
from headway.metrics.transcription import (
    EditCounts,
    character_errors,
    edit_counts,
    transcript_report,
    word_errors,
)

STORED = json.loads((Path(__file__).parent / "data/transcription.json").read_text())
CASES = STORED["cases"]


def expected(found: EditCounts, stored: dict[str, float]) -> None:
    assert found.rate == pytest.approx(stored["rate"], abs=1e-6)
    for name in ("hits", "substitutions", "deletions", "insertions"):
        assert getattr(found, name) == stored[name], name


def test_each_case_is_jiwer_s():
    assert len(CASES) >= 200
    assert sum(case["words"]["substitutions"] > 0 for case in CASES) > 100
    for case in CASES:
        expected(word_errors([case["reference"]], [case["hypothesis"]]), case["words"])
        expected(character_errors([case["reference"]], [case["hypothesis"]]), case["characters"])


def test_a_corpus_is_one_fraction_not_a_mean():
    for corpus in STORED["corpora"]:
        some = CASES[corpus["first"] : corpus["first"] + corpus["count"]]
        references, hypotheses = ([case[name] for case in some] for name in ("reference", "hypothesis"))
        expected(word_errors(references, hypotheses), corpus["words"])
        expected(character_errors(references, hypotheses), corpus["characters"])


def test_the_edits_are_the_fewest_and_account_for_every_token():
    chance = random.Random(3)
    for _ in range(200):
        one, two = (chance.choices("abc", k=chance.randint(0, 9)) for _ in range(2))
        found = edit_counts(one, two)
        assert found.hits + found.substitutions + found.deletions == len(one)
        assert found.hits + found.substitutions + found.insertions == len(two)
        assert found.errors == plain_distance(one, two)


def plain_distance(one: list[str], two: list[str]) -> int:
    """By the recursion itself."""
    row = list(range(len(two) + 1))
    for i, left in enumerate(one, 1):
        before, row = row, [i]
        for j, right in enumerate(two, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right)))
    return row[-1]


def test_a_report_has_words_characters_and_exact_matches():
    report = transcript_report(["one two", "three"], ["one  two ", "tree"])
    assert report.exact_match == 0.5
    values = report.to_json()
    assert values["wer"] == pytest.approx(1 / 3)
    assert values["cer"] == pytest.approx(2 / 12)  # the second space of "one  two", the h of three
    assert (values["hits"], values["substitutions"], values["sounds"]) == (2, 1, 2)


@pytest.mark.parametrize(("texts", "said", "message"), [(["a"], [], "0 transcripts for 1 texts"), ([], [], "0 transc")])
def test_as_many_transcripts_as_texts(texts, said, message):
    with pytest.raises(DataError, match=message):
        transcript_report(texts, said)
