"""Counting, the bound, and what a report shows."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

from headway.reliability.page import report_page
from headway.reliability.result import CampaignReport, RowResult, upper_bound
from headway.reliability.row import CampaignRow, Outcome, Place, chance_of, failed, noticed, ok


class Dice(CampaignRow):
    name, what, requirement, trials = "dice", "dice <b>fall</b>", "F0", 6

    def prepare(self, place: Place) -> None: ...

    def trial(self, number: int, chance: random.Random) -> Outcome:
        return ok()


def result_of(outcomes: Sequence[Outcome]) -> RowResult:
    result = RowResult(Dice())
    for number, outcome in enumerate(outcomes):
        result.add(number, outcome)
    return result


def test_the_bound():
    assert upper_bound(0, 300) == pytest.approx(0.01)
    assert upper_bound(0, 2) == 1.0
    assert upper_bound(0, 0) == upper_bound(3, 3) == 1.0
    # Clopper and Pearson, one-sided: the 95 % quantile of Beta(k + 1, n - k), from tables.
    assert upper_bound(1, 10) == pytest.approx(0.39416, abs=1e-5)
    assert upper_bound(5, 100) == pytest.approx(0.10225, abs=1e-5)
    assert upper_bound(50, 10_000) < 0.0065


def test_a_trial_may_count_several_faults():
    result = result_of([ok(3), ok(0), noticed(2)])
    assert (result.trials, result.count, result.failures) == (3, 5, [])
    assert result.bound == pytest.approx(3 / 5)


def test_the_times_of_faults_are_reported_by_median_and_maximum():
    result = result_of([ok(2, {"noticed": [0.1, 0.3]}), ok(0, {"noticed": []}), failed("late", 1, {"noticed": [6.0]})])
    assert result.to_json()["times"] == {"noticed": {"count": 3, "median": 0.3, "maximum": 6.0}}
    report = CampaignReport(seed=7, long=False, workers=1, rows=[result])
    assert "noticed after 0.3 s in the median, 6 s at most" in report_page(report)
    assert result_of([ok()]).to_json()["times"] == {}


def test_an_exhaustive_row_has_no_bound_once_all_is_tried(monkeypatch):
    monkeypatch.setattr(Dice, "exhaustive", True)
    assert result_of([ok()] * 5).bound == pytest.approx(3 / 5)
    assert result_of([ok()] * 6).bound is None


def test_a_trial_is_derived_from_seed_row_and_number_alone():
    draws = [chance_of(*key).random() for key in ((0, "a", 1), (0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2))]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 4


def test_the_page_shows_everything_and_escapes_it():
    report = CampaignReport(seed=7, long=False, workers=1, notes=["no <tmpfs>"])
    report.rows.append(result_of([ok(), failed("<script>alert(1)</script>")]))
    page = report_page(report)
    for text in (
        "--seed 7 --only dice:1",
        "&lt;script&gt;",
        "dice &lt;b&gt;",
        "no &lt;tmpfs&gt;",
        "1 of 2 trials failed",
    ):
        assert text in page
    assert "<script" not in page
    assert "default-src 'none'; style-src 'sha256-" in page
    found = json.loads(json.dumps(report.to_json()))
    assert found["rows"][0]["failed"] == [{"only": "dice:1", "reason": "<script>alert(1)</script>"}]
    assert found["failures"] == 1
