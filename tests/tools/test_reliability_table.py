"""The table of docs/reliability.md is written from the JSON of `headway reliability`."""

from __future__ import annotations

import json
import re

import pytest

from tools import damage_peers, reliability_table

ROW = {
    "row": "bit-flips", "what": "one bit | of any file", "requirement": "F3", "counted": "flips", "trials": 10_000,
    "count": 10_000, "failures": 0, "upper_bound": 0.0003, "exhaustive": False,
    "verdicts": {"ok": 1, "noticed": 9_000, "without effect": 999, "failed": 0}, "seconds": 60.0, "failed": [],
}  # fmt: skip
REPORT = {
    "headway": "0.1.0", "torch": "2.13.0", "python": "3.11.7", "machine": "Linux, 2 CPUs", "date": "2026-11-17",
    "seed": 7, "form": "long", "workers": 2, "seconds": 2700.0, "complete": True, "failures": 1, "notes": ["no mount"],
    "rows": [ROW, {
        **ROW, "row": "crash-points", "requirement": "F2", "counted": "points", "count": 80, "failures": 1,
        "upper_bound": None, "exhaustive": True, "verdicts": {"ok": 79, "failed": 1},
        "failed": [{"only": "crash-points:17", "reason": "lost a step"}],
        "times": {"noticed": {"count": 80, "median": 0.104, "maximum": 1.5}},
    }],
}  # fmt: skip
PAGE = f"# Reliability\n\n{reliability_table.BEGIN}\n\nnothing yet\n\n{reliability_table.END}\n\nmore\n"


def test_a_report_becomes_a_table(tmp_path, monkeypatch):
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    (tmp_path / "reliability.md").write_text(PAGE)
    monkeypatch.setattr(reliability_table, "PAGE", tmp_path / "reliability.md")
    assert reliability_table.main([str(tmp_path / "report.json")]) == 0
    page = (tmp_path / "reliability.md").read_text()
    assert page.startswith("# Reliability\n")
    assert page.endswith("\n\nmore\n")
    assert "nothing yet" not in page
    assert (
        r"| `bit-flips` | F3 | one bit \| of any file (9,000 noticed, 999 without effect) | 10,000 flips | 0 | 0.03 % |"
        in page
    )
    assert "(1 failed); noticed after 0.1 s in the median, 1.5 s at most | 80 points | 1 | every case tried |" in page
    assert "- `crash-points:17`: lost a step" in page
    assert "- no mount" in page
    assert "seed 7 and 2 processes took 45 minutes and found 1 failures" in page
    assert reliability_table.written(page, [REPORT]) == page


def test_a_campaign_in_parts_names_each_report_and_the_later_row_counts(tmp_path, monkeypatch):
    """The first part was stopped in its second row; the later report has that row, and one more."""
    first = {**REPORT, "complete": False}
    second = {
        **REPORT, "date": "2026-11-18", "seconds": 600.0, "failures": 0, "notes": ["no mount", "no GPU"],
        "rows": [{**ROW, "row": "crash-points", "count": 340}, {**ROW, "row": "kills", "count": 5}],
    }  # fmt: skip
    for name, report in (("first", first), ("second", second)):
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    (tmp_path / "reliability.md").write_text(PAGE)
    monkeypatch.setattr(reliability_table, "PAGE", tmp_path / "reliability.md")
    assert reliability_table.main([f"{tmp_path}/first.json@0123abc", f"{tmp_path}/second.json"]) == 0
    page = (tmp_path / "reliability.md").read_text()
    assert re.findall(r"^\| `([\w-]+)` .*\| ([\d,]+) flips", page, re.MULTILINE) == [
        ("bit-flips", "10,000"), ("crash-points", "340"), ("kills", "5")
    ]  # fmt: skip
    one, other = [line for line in page.splitlines() if line.startswith("- headway")]
    assert "headway 0.1.0 (commit 0123abc), torch 2.13.0" in one
    assert "2026-11-17. The long form with seed 7 and 2 processes was stopped after 45 minutes and found 1 f" in one
    assert one.endswith("Rows below: `bit-flips`; run again later: `crash-points`.")
    assert "2026-11-18. The long form with seed 7 and 2 processes took 10 minutes and found 0 failures" in other
    assert other.endswith("Rows below: `crash-points`, `kills`.")
    assert "commit" not in other
    assert "crash-points:17" not in page  # a failure of the row that was run again
    assert page.count("- no mount") == page.count("- no GPU") == 1


def test_an_unfinished_row_is_not_published():
    stopped = {**REPORT, "complete": False}
    for reports in ([stopped], [REPORT, stopped], [stopped, {**REPORT, "rows": [ROW]}]):
        with pytest.raises(ValueError, match="stopped in its row crash-points: a later report must have that row"):
            reliability_table.section(reports)
    with pytest.raises(ValueError, match="no row was run"):
        reliability_table.section([{**stopped, "rows": []}])
    assert reliability_table.main([]) == 2


def test_the_page_has_the_markers_and_explains_every_row():
    page = reliability_table.PAGE.read_text()
    assert reliability_table.BEGIN in page
    assert reliability_table.END in page
    rows = pytest.importorskip("headway.reliability.rows")
    before = page.partition(reliability_table.BEGIN)[0]
    explained = re.findall(r"^\| ([FI]\d+) \|.*\|$", before, re.MULTILINE)
    assert len(explained) == len(set(explained))
    for name in rows.ROWS:
        assert f"`{name}`" in before, f"docs/reliability.md does not name the row {name}"
        assert rows.row(name).requirement in explained, (
            f"docs/reliability.md does not explain {rows.row(name).requirement}"
        )


def test_what_the_peers_notice_is_measured(capsys):
    assert damage_peers.main(20, 5) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert [line for line in lines if "cut: 5 trials, 5 noticed" in line] == [lines[2], lines[5]]
    assert damage_peers.verdict(damage_peers.torch_load, damage_peers.torch_bytes({}), {}) == "without effect"
