"""The frame of the labs: checks, flags, exit codes, records and the page."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from headway import config
from headway.cli import main
from headway.errors import ConfigError
from headway.labs import course, frame, registry
from headway.labs.frame import (
    Lab,
    LabFigure,
    LabOutcome,
    LabTable,
    Slide,
    at_least,
    at_most,
    equals,
    holds,
    progress,
    run_lab,
    within,
)
from headway.labs.registry import LABS
from headway.plots import lab_figures


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyParameters:
    bound: float = 2.0  # what the number may be at most
    max_words: int = 3  # of nothing
    settings: tuple[str, ...] = ()


def tiny(parameters: TinyParameters, seed: int, quick: bool) -> LabOutcome:
    progress("counting", 1, 2)
    figure, (axes,) = lab_figures.panels()
    lab_figures.line(axes, [1, 2], [1, 2], "a", 0)
    lab_figures.style(axes, "Tiny", "step", "loss (nats)")
    return LabOutcome(
        tables=[LabTable(title="a <table>", header=("name", "number"), rows=[("x", 1.5), ("y", math.inf)])],
        figures=[LabFigure(alt="a line from 1 to 2", figure=figure)],
        checks=[at_most("one & a half", 1.5 + seed, parameters.bound)],
        notes=[f"settings {parameters.settings}"],
    )


TINY = Lab(
    name="tiny",
    chapter=1,
    title="a tiny lab",
    claim="One and a half is at most two.",
    slides=(Slide("000", "Review 1", 3), Slide("004", "p. 13")),
    parameters=TinyParameters,
    run=tiny,
    mechanism=("tiny",),
)


@pytest.fixture
def only_tiny(monkeypatch, tmp_path):
    """A registry of the tiny lab and of one that raises."""
    monkeypatch.chdir(tmp_path)
    broken = replace(TINY, name="raises", run=raises, chapter=2)
    monkeypatch.setattr(registry.Labs, "__getitem__", lambda self, name: {"tiny": TINY, "raises": broken}[name])
    monkeypatch.setattr(LABS, "homes", {"tiny": "tests.labs.test_frame:TINY"})
    course._library.cache_clear()
    yield
    course._library.cache_clear()


def raises(parameters, seed, quick):
    raise ValueError("the lab <broke>")


@pytest.mark.parametrize(
    ("check", "passed", "bound"),
    [
        (at_most("a", 0.05, 0.05), True, "≤ 0.05"),
        (at_most("a", 0.051, 0.05), False, "≤ 0.05"),
        (at_least("a", 0.98, 0.99), False, "≥ 0.99"),
        (at_least("a", 1, 0.99), True, "≥ 0.99"),
        (within("a", 0.3, 0.1, 0.2), False, "0.1 to 0.2"),
        (equals("a", 6.58, 6.579, 0.01), True, "= 6.579 ± 0.01"),
        (equals("a", 7, 39), False, "= 39"),
        (holds("a", True), True, "true (1)"),
        (holds("a", False), False, "true (1)"),
        (at_most("a", math.nan, 1.0), False, "≤ 1"),
        (at_least("a", math.nan, 1.0), False, "≥ 1"),
        (at_most("a", math.inf, 1e9), False, "≤ 1e+09"),
    ],
)
def test_a_check_passes_within_its_bound_and_nan_never_does(check, passed, bound):
    assert (check.passed, check.bound) == (passed, bound)
    json.dumps(check.to_json(), allow_nan=False)


def test_flags_come_from_the_dataclass_and_are_typed():
    assert TINY.with_flags({"bound": "3", "max-words": "7"}) == TinyParameters(bound=3.0, max_words=7)
    assert TINY.with_flags({"model.width": "8"}).settings == ("model.width=8",)
    assert [key.meaning for key in TINY.flags()] == ["what the number may be at most", "of nothing"]
    with pytest.raises(ConfigError, match="lab tiny: --bund is no flag of this lab; did you mean bound"):
        TINY.with_flags({"bund": "3"})
    with pytest.raises(ConfigError, match="max_words"):
        TINY.with_flags({"max-words": "x"})
    with pytest.raises(ConfigError, match=r"--model\.width is a config key, which this lab does not take"):
        LABS["party"].with_flags({"model.width": "8"})


def test_a_lab_that_is_not_complete_is_noticed_when_it_is_written():
    with pytest.raises(ValueError, match="--see is a flag of every lab, or begins one"):
        replace(TINY, parameters=dataclass(frozen=True)(type("See", (), {"__annotations__": {"see": int}, "see": 1})))
    for wrong in ({"chapter": 11}, {"slides": ()}, {"mechanism": ()}):
        with pytest.raises(ValueError, match="expected a chapter"):
            replace(TINY, **wrong)
    with pytest.raises(ValueError, match="2 cells under 1 headers"):
        LabTable(title="t", header=("a",), rows=[("x", "y")])
    with pytest.raises(ValueError, match="each with a name of its own"):
        LabOutcome(tables=[], figures=[], checks=[holds("a", True), holds("a", True)])


def test_torch_is_left_as_it_was_and_a_lab_draws_from_its_seed():
    torch.manual_seed(5)
    threads, state = torch.get_num_threads(), torch.get_rng_state()

    def draws(*_):
        return LabOutcome(tables=[], figures=[], checks=[holds(str(torch.rand(1)), True)])

    drawn = [run_lab(replace(TINY, run=draws), seed=seed).outcome.checks[0].name for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_progress_reaches_who_observes_it():
    told = []
    progress("nothing", 1, 1)
    with frame.observed_progress(lambda *what: told.append(what)):
        run_lab(TINY)
    assert told == [("counting", 1, 2)]


def test_a_lab_prints_claim_tables_figure_and_checks_and_exits_with_3_if_one_fails(only_tiny, capsys, tmp_path):
    assert main(["lab", "tiny", "--out", "labs", "--plot", "a.svg", "--bound", "4"]) == 0
    out = capsys.readouterr().out
    for part in ("Claim: One and a half", "000 Review 1 (line 3), 004 p. 13", "a <table>", "✓", "≤ 4", "labs/tiny.png"):
        assert part in out
    assert (tmp_path / "labs/tiny.svg").read_bytes() == (tmp_path / "a.svg").read_bytes()
    assert (tmp_path / "labs/tiny.png").read_bytes().startswith(b"\x89PNG")
    assert main(["lab", "tiny", "--seed", "1"]) == 3
    said = capsys.readouterr()
    assert "✗" in said.out
    assert "1 check failed: tiny: one & a half" in said.err
    assert main(["lab", "tiny", "--json", "--model.width", "8"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["checks"][0] == {
        "name": "one & a half", "measured": 1.5, "low": None, "high": 2.0, "bound": "≤ 2", "passed": True,
    }  # fmt: skip
    assert found["notes"] == ["settings ('model.width=8',)"]
    assert found["tables"][0]["rows"] == [["x", 1.5], ["y", "inf"]]


def test_help_of_a_lab_lists_its_flags(only_tiny, capsys):
    assert main(["lab", "tiny", "--help"]) == 0
    assert "--max-words int  of nothing (default: 3)" in capsys.readouterr().out
    assert main(["lab", "all", "--out", "course", "--help"]) == 0
    assert not Path("course").exists()
    assert main(["lab", "tiny", "--bund", "3"]) == 2
    assert main(["lab", "tiny", "--bound", "x"]) == 2
    assert main(["lab", "--bound", "3"]) == 2
    assert main(["lab", "tinny"]) == 2
    assert main(["lab", "all", "--bound", "3"]) == 2
    assert main(["lab", "tiny", "--out", "-"]) == 2
    assert main(["lab", "tiny", "--plot", "a.gif"]) == 2


def test_the_course_goes_on_where_it_stopped_and_survives_a_lab_that_raises(only_tiny, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(LABS, "homes", {**LABS.homes, "raises": "tests.labs.test_frame:TINY"})
    assert main(["lab", "all", "--out", "course"]) == 3
    said = capsys.readouterr()
    assert "raises: ValueError: the lab <broke> (test_frame.py, line" in said.err
    page = (tmp_path / "course/index.html").read_text()
    assert "the lab &lt;broke&gt;" in page
    assert "a &lt;table&gt;" in page
    assert "1 labs ended with an error" in page
    assert 'alt="a line from 1 to 2"' in page
    assert "<script" not in page
    assert "http" not in page.replace('http-equiv="Content', "")
    monkeypatch.setattr(LABS, "homes", {"tiny": "tests.labs.test_frame:TINY"})
    monkeypatch.setattr(course, "run_lab", lambda *_, **__: pytest.fail("the lab was run again"))
    assert main(["lab", "all", "--out", "course", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labs"]["tiny"]["passed"]
    kept = course.run_course(tmp_path / "course")
    assert [record.kept for record in kept] == [True]
    (tmp_path / "course/tiny.png").unlink()
    assert course._kept(tmp_path / "course", TINY, 0, False) is None
    assert course._kept(tmp_path / "course", TINY, 1, False) is None
    (tmp_path / "course/tiny.json").write_text("{")
    assert course._kept(tmp_path / "course", TINY, 0, False) is None


def test_a_record_depends_on_code_seed_and_parameters():
    keys = {
        course.record_key(TINY, 0, False, TinyParameters()),
        course.record_key(TINY, 1, False, TinyParameters()),
        course.record_key(TINY, 0, True, TinyParameters()),
        course.record_key(TINY, 0, False, TinyParameters(bound=3.0)),
        course.record_key(LABS["party"], 0, False, TinyParameters()),
    }
    assert len(keys) == 5
    assert course.record_key(TINY, 0, False, TinyParameters()) in keys


def test_another_package_adds_a_lab(monkeypatch, capsys, tmp_path):
    points = {
        "tiny": EntryPoint("tiny", "tests.labs.test_frame:TINY", registry.GROUP),
        "broken": EntryPoint("broken", "tests.labs.test_frame:TINY", registry.GROUP),  # of another name
    }
    monkeypatch.setattr(config, "plugins", lambda group: points if group == registry.GROUP else {})
    assert main(["lab", "tiny", "--bound", "4", "--out", str(tmp_path)]) == 0
    assert main(["lab"]) == 0
    said = capsys.readouterr()
    assert "One and a half" in said.out
    assert "plugin 'broken' of group headway.labs: expected a Lab of that name" in said.err
    assert main(["lab", "broken"]) == 2


def test_the_list_has_chapters_and_claims(capsys):
    assert main(["lab"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 Memory party A sum" in said
    for name in LABS:
        assert LABS[name].claim[:30] in said
