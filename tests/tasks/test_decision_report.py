"""Returns that were asked for, in one run and over several."""

from __future__ import annotations

import numpy as np
import pytest

from headway.errors import ConfigError
from headway.metrics.world import ReturnStatistics
from headway.tasks.decision_transformer.report import PlayedReturns, ReturnsOverRuns, ReturnsReport, relative_error
from headway.tasks.report import Figures

LOG = ReturnStatistics(10, 20.0, 1.0)


def report(played, environment="CartPole-v1"):
    found = [PlayedReturns(target, np.asarray(returns, float)) for target, returns in played.items()]
    return ReturnsReport(environment=environment, title="a run", played=found, logged=LOG, taken=300)


ONE = report({10.0: [8, 12], 100.0: [80, 100]})
TWO = report({10.0: [10, 14], 100.0: [100, 100]})
CLONED = report({None: [60, 70]})


def tables(result):
    return {each.title: each for each in result.tables() if isinstance(each, Figures)}


def test_one_run_has_intervals_over_episodes():
    values = ONE.to_json()
    assert (values["return_asked_10"], values["return_asked_10_low"], values["return_asked_10_high"]) == (10, 8, 12)
    assert values["mean_return"] == values["return_asked_100"] == 90
    assert values["rank_correlation"] == pytest.approx(1)
    assert ONE.evaluation()["asked"] == [10, 100]
    assert ONE.evaluation()["got_low"] == [8, 80]
    assert [*tables(ONE)["returns"].rows[1]] == ["100", "90.0", "[80.0, 100.0]", "-10.0 %"]


def test_several_runs_have_intervals_over_runs_and_each_run_is_shown():
    both = ReturnsReport.over_runs({"a": ONE, "b": TWO, "best": CLONED})
    values = both.to_json()
    assert [values[f"return_asked_100{end}"] for end in ("", "_low", "_high")] == [95, 90, 100]
    assert values["relative_error_asked_100"] == pytest.approx(-0.05)
    assert values["cloned_return"] == 65
    assert {name: run["mean_return"] for name, run in values["runs"].items()} == {"a": 90, "b": 100, "best": 65}
    found = tables(both)
    assert [row[:3] for row in found["each run, by the return it was asked for"].rows] == [
        ["a", "10.0", "90.0"],
        ["b", "12.0", "100.0"],
    ]
    assert found["mean over runs"].rows[0] == ["10", "11.0", "[10.0, 12.0]", "+10.0 %"]
    assert found["behaviour cloning"].rows[-1][:2] == ["mean over runs", "65.0"]
    assert both.plot("png", "runs").startswith(b"\x89PNG")


def test_a_run_beside_behaviour_cloning_keeps_its_interval_over_episodes():
    pair = ReturnsReport.over_runs({"a": ONE, "best": CLONED})
    assert [(each.low, each.high) for each in pair.got] == [(8, 12), (80, 100)]
    assert (pair.cloning.low, pair.cloning.high) == (60, 70)
    assert tables(pair)["mean over runs"].footnote == "interval over episodes"
    assert pair.facts() == {
        "environment": "CartPole-v1", "asked for returns": "1 run, a run", "not asked": "1 run, a run"
    }  # fmt: skip


def test_runs_that_are_not_asked_for_returns_stand_alone():
    alone = ReturnsOverRuns.of({"a": CLONED, "b": CLONED})
    assert "rank_correlation" not in alone.to_json()
    assert [*tables(alone)] == ["behaviour cloning"]
    for result in (CLONED, alone):
        with pytest.raises(ConfigError, match="asked for returns"):
            result.plot("png", "")


def test_runs_that_do_not_compare_are_refused():
    with pytest.raises(ConfigError, match="b plays Acrobot-v1, a CartPole-v1; allowed: one environment"):
        ReturnsOverRuns.of({"a": ONE, "b": report({None: [1]}, "Acrobot-v1")})
    with pytest.raises(ConfigError, match=r"several lists of task.targets \(a 10, 100; b 10, 20\), allowed: one list"):
        ReturnsOverRuns.of({"a": ONE, "b": report({10.0: [1], 20.0: [2]})})


def test_the_error_is_a_share_of_what_was_asked_for():
    assert relative_error(-100.0, -110.0) == pytest.approx(-0.1)  # below a negative target is worse too
    assert np.isnan(relative_error(0.0, 1.0))
