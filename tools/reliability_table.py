"""Writes the table of docs/reliability.md from a report of `headway reliability --long --json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN = "<!-- written by `python tools/reliability_table.py REPORT.json` -->"
END = "<!-- end of the written part -->"


def section(report: dict[str, Any]) -> str:
    """The table, where and how it was made, and every failure. Raises ValueError for a campaign that was stopped."""
    if not report["complete"]:
        raise ValueError("the campaign was stopped before its end; its counts are not published")
    header = ["row", "requirement", "what is tested", "trials", "failures", "95 % upper bound"]
    lines = [_row(header), _row(["---", "---", "---", "--:", "--:", "--:"])]
    lines += [_row(cells(each)) for each in report["rows"]]
    parts = [_origin(report), "\n".join(lines)]
    failed = [each for row in report["rows"] for each in row["failed"]]
    if failed:
        parts.append("\n".join(["Failures:", "", *(f"- `{each['only']}`: {each['reason']}" for each in failed)]))
    if report["notes"]:
        parts.append("\n".join(["Not tried on that machine:", "", *(f"- {each}" for each in report["notes"])]))
    return "\n\n".join(parts)


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of one row."""
    bound = "every case tried" if row["upper_bound"] is None else f"{100 * row['upper_bound']:.2g} %"
    seen = ", ".join(f"{count:,} {verdict}" for verdict, count in row["verdicts"].items() if count and verdict != "ok")
    tested = row["what"] + (f" ({seen})" if seen else "")
    trials = f"{row['count']:,} {row['counted']}"
    return [f"`{row['row']}`", row["requirement"], tested, trials, f"{row['failures']:,}", bound]


def _origin(report: dict[str, Any]) -> str:
    processes = "1 process" if report["workers"] == 1 else f"{report['workers']} processes"
    versions = f"headway {report['headway']}, torch {report['torch']}, Python {report['python']}"
    return (
        f"{versions}; {report['machine']}; {report['date']}. The {report['form']} form with seed {report['seed']} and "
        f"{processes} took {report['seconds'] / 60:.0f} minutes and found {report['failures']:,} failures."
    )


def _row(cells: list[str]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def written(page: str, report: dict[str, Any]) -> str:
    """A page with the table between its markers. Raises ValueError for a page without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"docs/{PAGE.name} lacks {END if begin else BEGIN}")
    return f"{before}{BEGIN}\n\n{section(report)}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Write the table from the report that is named, or from stdin for `-`."""
    if len(arguments) != 1:
        print("usage: python tools/reliability_table.py REPORT.json", file=sys.stderr)
        return 2
    text = sys.stdin.read() if arguments[0] == "-" else Path(arguments[0]).read_text(encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), json.loads(text)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
