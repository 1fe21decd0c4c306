"""The report as one HTML page: a table, every failure, and how it was measured. It loads nothing and runs no script."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from statistics import median

from headway.reliability.result import CampaignReport, RowResult
from headway.reliability.row import Verdict

_STYLE = """
:root { --ink: #1b1f24; --soft: #5b6570; --line: #d9dee3; --paper: #ffffff; --good: #11703a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #98a2ad; --line: #333a41; --paper: #14171a; --good: #58c98a; --bad: #ff8a80; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 68rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 0.5rem; }
.result { font-size: 1.1rem; margin: 0.25rem 0 1.5rem; } .good { color: var(--good); } .bad { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: 0.45rem 0.9rem 0.45rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name { font-weight: 600; white-space: nowrap; }
.soft { color: var(--soft); } code { font-size: 0.9em; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 0; } dt { color: var(--soft); }
dd { margin: 0; }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{digest}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Reliability of headway {version}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>Reliability of headway {version}</h1>
<p class="result">{result}</p>
<div class="wide">
<table>
<thead><tr><th>row</th><th>what is tested</th><th>id</th><th class="number">N</th><th class="number">failures</th>
<th class="number">95 % bound</th><th class="number">seconds</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
<p class="soft">N counts injected faults. The bound is the largest probability of a failure that the trials leave
plausible: 3/N without a failure, else that of Clopper and Pearson. A row that tries every case needs no bound.
The ids are those of the requirements in docs/reliability.md.</p>
{failures}
{notes}
<h2>How it was measured</h2>
<dl>
{facts}
</dl>
</main>
</body>
</html>
"""


def report_page(report: CampaignReport) -> str:
    """The page."""
    trials = sum(row.trials for row in report.rows)
    failures = len(report.failures)
    ended = "" if report.stopped_by is None else " The campaign was ended early."
    result = (
        f'<span class="bad">{failures:,} of {trials:,} trials failed.</span>{ended}'
        if failures
        else f'<span class="good">No failure in {trials:,} trials.</span>{ended}'
    )
    facts = {
        **report.facts,
        "seed": str(report.seed),
        "form": "long" if report.long else "short",
        "workers": str(report.workers),
        "duration": f"{report.seconds / 60:.1f} minutes",
    }
    return _PAGE.format(
        digest=base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode(),
        style=_STYLE,
        version=escape(report.facts["headway"]),
        result=result,
        rows="\n".join(_row(row) for row in report.rows),
        failures=_failures(report),
        notes=_list("Not tried on this machine", [escape(note) for note in report.notes]),
        facts="\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()),
    )


def shown_bound(result: RowResult) -> str:
    """The upper bound as a percentage, or that every case was tried."""
    return "all cases" if result.bound is None else f"{result.bound:.2%}"


def _row(result: RowResult) -> str:
    kinds = ", ".join(f"{result.verdicts[kind]:,} {kind.value}" for kind in Verdict if result.verdicts[kind])
    for name, times in result.times.items():
        kinds += f"; {name} after {median(times):.2g} s in the median, {max(times):.2g} s at most"
    failures = f'<span class="bad">{len(result.failures):,}</span>' if result.failures else "0"
    cells = [
        f'<td class="name">{escape(result.row.name)}</td>',
        f'<td>{escape(result.row.what)}<br><span class="soft">{escape(kinds)}</span></td>',
        f'<td class="soft">{escape(result.row.requirement)}</td>',
        f'<td class="number">{result.count:,}<br><span class="soft">{escape(result.row.counted)}</span></td>',
        f'<td class="number">{failures}</td>',
        f'<td class="number">{shown_bound(result)}</td>',
        f'<td class="number">{result.seconds:,.0f}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _failures(report: CampaignReport) -> str:
    lines = [
        f"<code>headway reliability --seed {report.seed} --only {escape(each.again)}</code><br>{escape(each.reason)}"
        for each in report.failures
    ]
    return _list("Failures, and how to repeat each", lines)


def _list(title: str, lines: list[str]) -> str:
    if not lines:
        return ""
    items = "\n".join(f"<li>{line}</li>" for line in lines)
    return f"<h2>{title}</h2>\n<ul>\n{items}\n</ul>"
