"""What a user sees of `headway reliability`: a bar on stderr while it runs, and a table at its end."""

from __future__ import annotations

import time
from typing import Self

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headway.cli.console import SafeConsole
from headway.counts import counted
from headway.reliability.page import shown_bound
from headway.reliability.result import CampaignReport, RowResult
from headway.reliability.row import CampaignRow
from headway.reliability.rows import ROWS, row

SHOWN = 20  # failures listed
LINE_SECONDS = 30.0  # between two lines of progress where no bar is shown


class CampaignBar:
    """A bar on stderr on a terminal, else a line every 30 seconds; a context manager.

    A failure is told when it happens, since a campaign may go on for an hour.

    The bar has no thread of its own: a process with threads must not be forked.
    """

    def __init__(self) -> None:
        self.console = SafeConsole(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
        )
        self.bar = Progress(
            *columns, console=self.console, transient=True, auto_refresh=False, disable=not self.console.is_interactive
        )
        self.task = self.bar.add_task("", total=1.0, told="")
        self._failures_told = 0
        self._next_line = 0.0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def preparing(self, what: str) -> None:
        """Show what is being prepared."""
        self.bar.update(self.task, description=f"preparing: {what}", completed=0.0, told="")
        self.bar.refresh()

    def began(self, row: CampaignRow) -> None:
        """Begin the bar of a row."""
        self.bar.reset(self.task, description=row.name, told="")
        self.bar.refresh()
        self._failures_told = 0
        self._next_line = time.monotonic() + LINE_SECONDS

    def progress(self, result: RowResult, share: float) -> None:
        """Move the bar to `share` of the row, and tell new failures."""
        self.bar.update(self.task, completed=share, told=_told(result))
        self.bar.refresh()
        for each in result.failures[self._failures_told :]:
            self.console.print(f"  {each.again}: {each.reason}", soft_wrap=True, markup=False)
        self._failures_told = len(result.failures)
        if not self.console.is_interactive and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            self.console.print(f"{result.row.name} {share:.0%}: {_told(result)}", soft_wrap=True)

    def ended(self, result: RowResult) -> None:
        """One line for the row."""
        self.console.print(f"{result.row.name}: {_told(result)} in {result.seconds:.0f} s", soft_wrap=True)


def _told(result: RowResult) -> str:
    return f"{result.count:,} {result.row.counted}, {counted(len(result.failures), 'failure')}"


def show_rows() -> None:
    """The rows, with what each tests."""
    for name in ROWS:
        print(f"{name}: {row(name).what}")


def show_report(report: CampaignReport) -> None:
    """Print the table, the failures and how to repeat each."""
    console = SafeConsole()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("row", no_wrap=True)
    table.add_column("what is tested")
    table.add_column("id", no_wrap=True)
    for heading in ("N", "failures", "95 % bound", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in report.rows:
        table.add_row(
            result.row.name,
            escape(result.row.what),
            result.row.requirement,
            f"{result.count:,} {result.row.counted}",
            f"[red]{len(result.failures):,}[/red]" if result.failures else "0",
            shown_bound(result),
            f"{result.seconds:.0f}",
        )
    console.print(table)
    for note in report.notes:
        console.print(f"not tried: {escape(note)}", soft_wrap=True)
    failures = report.failures
    for failure in failures[:SHOWN]:
        console.print(f"[red]{failure.again}[/red] {escape(failure.reason)}", soft_wrap=True)
    if len(failures) > SHOWN:
        console.print(f"… and {len(failures) - SHOWN} more: --json and --out list all of them")
    if failures:
        again = f"headway reliability --seed {report.seed} --only {failures[0].again}"
        console.print(f"to repeat a failure: {again}", soft_wrap=True)
    facts = ", ".join(f"{name} {value}" for name, value in report.facts.items() if name not in ("machine", "date"))
    console.print(f"{facts}; {report.facts['machine']}; seed {report.seed}; {report.facts['date']}", soft_wrap=True)
