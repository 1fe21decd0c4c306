"""Writes the table of docs/reliability.md from reports of `headway reliability --long --json`.

    python -m tools.reliability_table REPORT.json [REPORT.json ...]

A campaign may be run in parts: a row of a later report replaces that of an earlier one, or is added to the table. A
report becomes `REPORT.json@COMMIT` to publish the commit that was tested; `-` is stdin.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.generated import DOCS, replace_part

PAGE = DOCS / "reliability.md"
BEGIN = "<!-- written by `python -m tools.reliability_table REPORT.json ...` -->"
END = "<!-- end of the written part -->"
COMMIT = re.compile(r"(.+)@([0-9a-f]{7,40})")
Report = dict[str, Any]


def section(reports: Sequence[Report]) -> str:
    """The table, where and how each report was made, and every failure. Raises ValueError for unfinished rows."""
    sources = {row["row"]: report for report in reports for row in report["rows"]}
    rows = {row["row"]: row for report in reports for row in report["rows"]}
    if not rows:
        raise ValueError("no row was run; nothing to publish")
    for report in reports:
        # The rows of a campaign run one after the other: one that was stopped has its last row in part.
        unfinished = report["rows"][-1]["row"] if report["rows"] and not report["complete"] else None
        if unfinished and sources[unfinished] is report:
            raise ValueError(f"the campaign was stopped in its row {unfinished}: a later report must have that row")
    header = ["row", "requirement", "what is tested", "trials", "failures", "95 % upper bound"]
    lines = [_row(header), _row(["---", "---", "---", "--:", "--:", "--:"]), *(_row(cells(x)) for x in rows.values())]
    if len(reports) == 1:
        parts = [_origin(reports[0]), "\n".join(lines)]
    else:
        origins = [f"- {_origin(each)} {_published(each, sources)}" for each in reports]
        parts = ["\n".join(origins), "\n".join(lines)]
    failed = [each for row in rows.values() for each in row["failed"]]
    if failed:
        parts.append("\n".join(["Failures:", "", *(f"- `{each['only']}`: {each['reason']}" for each in failed)]))
    notes = dict.fromkeys(note for report in reports for note in report["notes"])
    if notes:
        parts.append("\n".join(["Not tried on that machine:", "", *(f"- {each}" for each in notes)]))
    return "\n\n".join(parts)


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of one row."""
    bound = "every case tried" if row["upper_bound"] is None else f"{100 * row['upper_bound']:.2g} %"
    seen = ", ".join(f"{count:,} {verdict}" for verdict, count in row["verdicts"].items() if count and verdict != "ok")
    tested = row["what"] + (f" ({seen})" if seen else "")
    for name, seconds in row.get("times", {}).items():
        tested += f"; {name} after {seconds['median']:.2g} s in the median, {seconds['maximum']:.2g} s at most"
    trials = f"{row['count']:,} {row['counted']}"
    return [f"`{row['row']}`", row["requirement"], tested, trials, f"{row['failures']:,}", bound]


def _origin(report: Report) -> str:
    processes = "1 process" if report["workers"] == 1 else f"{report['workers']} processes"
    commit = f" (commit {report['commit']})" if "commit" in report else ""
    versions = f"headway {report['headway']}{commit}, torch {report['torch']}, Python {report['python']}"
    took = "took" if report["complete"] else "was stopped after"
    return (
        f"{versions}; {report['machine']}; {report['date']}. The {report['form']} form with seed {report['seed']} and "
        f"{processes} {took} {report['seconds'] / 60:.0f} minutes and found {report['failures']:,} failures."
    )


def _published(report: Report, sources: dict[str, Report]) -> str:
    """The rows of a report that are in the table, and those that a later report replaces."""
    names = [row["row"] for row in report["rows"]]
    shown = [f"`{name}`" for name in names if sources[name] is report]
    replaced = [f"`{name}`" for name in names if sources[name] is not report]
    told = f"Rows below: {', '.join(shown) or 'none'}"
    return f"{told}; run again later: {', '.join(replaced)}." if replaced else f"{told}."


def _row(cells: list[str]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def written(page: str, reports: Sequence[Report]) -> str:
    """A page with the table between its markers."""
    return replace_part(page, BEGIN, END, section(reports))


def read_report(argument: str) -> Report:
    """The report that an argument names, with its commit if that is given."""
    given = COMMIT.fullmatch(argument)
    name = given[1] if given else argument
    report: Report = json.loads(sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8"))
    return {**report, "commit": given[2]} if given else report


def main(arguments: list[str]) -> int:
    """Write the table from the reports that are named, the oldest first."""
    if not arguments:
        print("usage: python -m tools.reliability_table REPORT.json[@COMMIT] ...", file=sys.stderr)
        return 2
    reports = [read_report(each) for each in arguments]
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), reports), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
