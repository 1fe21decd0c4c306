"""What `headway lab` prints: the list of labs, a lab's claim, tables and checks, and a bar while it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headway.cli import render as show
from headway.cli.console import SafeConsole
from headway.cli.progress import plain_bar, share_bar
from headway.cli.terminal import tell
from headway.errors import VerificationError
from headway.labs.course import LabRecord
from headway.labs.exercise_check import ExerciseOutcome
from headway.labs.frame import CHAPTERS, Lab, LabCheck, LabResult, LabTable, flag, observed_progress, written
from headway.labs.registry import LABS
from headway.training.quantities import duration

PASSED, FAILED = "✓", "✗"


def list_labs() -> None:
    """The chapters, the labs of each, and what each claims."""
    console = SafeConsole()
    found = LABS.loadable(lambda wrong: tell(f"note: {wrong}"))
    for number, title in CHAPTERS.items():
        labs = [each for each in found if each.chapter == number]
        if labs:
            table = Table(box=None, show_header=False, pad_edge=False)
            table.add_column(no_wrap=True, style="bold")
            table.add_column(overflow="fold")
            for each in labs:
                table.add_row(Text(each.name), Text(each.claim))
            console.print(show.section(f"{number} {title}", table))
    console.print("\n`headway lab NAME` runs one, `headway lab NAME --help` has its flags, `headway lab all` runs all.")
    console.print("`headway lab NAME --exercise` writes a file to solve, `headway lab check FILE` checks it.")


def list_flags(lab: Lab[Any]) -> None:
    """The flags of one lab, with type, default and meaning."""
    console = SafeConsole()
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key in lab.flags():
        default = f" (default: {key.value})" if key.value else ""
        table.add_row(Text(f"--{flag(key.path)} {key.type}"), Text(f"{key.meaning}{default}"))
    console.print(show.section(f"flags of lab {lab.name}", table if lab.flags() else Text("none of its own")))


def print_result(result: LabResult, files: Sequence[Path], console: SafeConsole) -> None:
    """Claim, tables, notes, where the figures are, and a mark for each check."""
    lab = result.lab
    console.print(Text(f"{lab.name}: {lab.title}", style="bold"))
    console.print(Text(f"Claim: {lab.claim}"))
    console.print(Text(f"Slides: {', '.join(map(str, lab.slides))}", style="dim"))
    for table in result.outcome.tables:
        console.print(_table(table, console.width))
    for note in result.outcome.notes:
        console.print(show.note(note))
    console.print(show.section("checks", _checks(result.outcome.checks)))
    for path in files:
        console.print(Text(f"\nFigure: {path}" if path == files[0] else f"Figure: {path}"), soft_wrap=True)
    took = f"{duration(result.seconds)}, {result.cpu_seconds:.1f} s of CPU, seed {result.seed}"
    console.print(Text(f"{took}{', quick' if result.quick else ''}", style="dim"))


def print_json(result: LabResult) -> None:
    """The values of a lab on one line."""
    print(json.dumps(result.to_json(), ensure_ascii=False))


def print_course(records: Sequence[LabRecord], page: Path) -> None:
    """A line for each lab, and where the page is."""
    console = SafeConsole()
    rows = []
    for record in records:
        checks = record.values.get("checks", [])
        right = sum(check["passed"] for check in checks)
        took = f"{record.values.get('seconds', 0.0):.1f} s" + (", kept" if record.kept else "")
        rows.append(
            [record.lab.name, PASSED if record.passed else FAILED, f"{right}/{len(checks)}", record.error or took]
        )
    console.print(show.figures(["lab", "", "checks", "time"], rows))
    console.print(Text(f"\nThe page is {page}."), soft_wrap=True)


def print_course_json(records: Sequence[LabRecord]) -> None:
    """Values of all labs, or the error each ended with."""
    labs = {each.lab.name: {"error": each.error} if each.error else dict(each.values) for each in records}
    print(json.dumps({"passed": all(each.passed for each in records), "labs": labs}, ensure_ascii=False))


def expect_passed(failed: Iterable[str]) -> None:
    """Raise VerificationError (exit code 3) naming what failed."""
    names = [*failed]
    if names:
        more = f"; and {len(names) - 3} more" if len(names) > 3 else ""
        raise VerificationError(
            f"{len(names)} {'check' if len(names) == 1 else 'checks'} failed: " + "; ".join(names[:3]) + more
        )


def print_exercise(outcome: ExerciseOutcome, hints: Sequence[str], console: SafeConsole) -> None:
    """The checks of a learner's function, what it returned where that differs, and hints."""
    file = outcome.file
    console.print(Text(f"{file.lab.name}: {file.target.name} of {file.path}", style="bold"))
    if outcome.result is not None:
        console.print(show.section("checks", _checks(outcome.result.outcome.checks)))
    if outcome.note:
        console.print(show.note(f"{outcome.note}."))
    if outcome.passed:
        console.print(show.note(f"Every check holds: {file.target.name} does what the shipped one does."))
    for number, hint in enumerate(hints, 1):
        console.print(show.note(f"Hint {number} of {len(file.hints)}: {hint}"))


def print_exercise_json(outcome: ExerciseOutcome, hints: Sequence[str]) -> None:
    """The same on one line."""
    print(json.dumps(outcome.to_json(hints), ensure_ascii=False))


def expect_solved(outcome: ExerciseOutcome) -> None:
    """Raise VerificationError (exit code 3) with the problem, or naming the checks that failed."""
    if outcome.problem:
        raise VerificationError(outcome.problem)
    if outcome.result is not None:
        expect_passed(f"{outcome.file.lab.name}: {check.name}" for check in outcome.result.failed)


@contextmanager
def prints_on_stderr(wanted: bool) -> Iterator[None]:
    """What a learner's file prints goes to stderr, where stdout has JSON."""
    if not wanted:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def bar(title: str) -> Iterator[None]:
    """A bar on stderr while a lab runs, moved by what the lab tells."""
    with share_bar(title) as tell_progress, observed_progress(tell_progress):
        yield


@contextmanager
def course_bar(total: int) -> Iterator[Callable[[Lab[Any], LabRecord | None], None]]:
    """A bar of the whole course; call what it gives before and after each lab. In a log, a line for each lab."""
    with plain_bar() as made:
        task = made.add_task("course", total=total)

        def told(lab: Lab[Any], record: LabRecord | None) -> None:
            if record is None:
                made.update(task, description=f"lab {lab.name}")
                return
            made.advance(task)
            if not made.console.is_interactive:
                mark = PASSED if record.passed else FAILED
                tell(f"{mark} {lab.name}: {record.error or duration(record.values['seconds'])}")

        def tell_progress(what: str, done: int, total: int) -> None:
            made.update(task, description=f"{made.tasks[0].description.partition(':')[0]}: {what} {done:,}/{total:,}")

        with observed_progress(tell_progress):
            yield told


def _table(table: LabTable, width: int) -> Group:
    """A table, or a block for each row where its words do not fit beside each other."""
    room = width - 2 * len(table.header)
    columns = [[name, *(written(row[at]) for row in table.rows)] for at, name in enumerate(table.header)]
    words = [max(cell_len(word) for text in column for word in text.split() or [""]) for column in columns]
    body = _blocks(table) if sum(words) > room else _grid(table, columns, words, room)
    parts: list[RenderableType] = [Text(), Text(table.title, style="bold"), Padding(body, (0, 0, 0, 2), expand=False)]
    note = [Padding(Text(table.note, style="dim"), (0, 0, 0, 2), expand=False)] if table.note else []
    return Group(*parts, *note)


def _grid(table: LabTable, columns: Sequence[Sequence[str]], words: Sequence[int], room: int) -> Table:
    """Columns, each as wide as its longest word at least, and the rest of the room in proportion to what they need."""
    made = Table(box=None, pad_edge=False, header_style="dim")
    needed = [max(map(cell_len, column)) - word for column, word in zip(columns, words, strict=True)]
    spare = min(room - sum(words), sum(needed))
    for at, name in enumerate(table.header):
        number = bool(table.rows) and all(not isinstance(row[at], str) for row in table.rows)
        width = words[at] + needed[at] * spare // max(sum(needed), 1)
        made.add_column(name, justify="right" if number else "left", width=width)
    for row in table.rows:
        made.add_row(*(Text(written(cell)) for cell in row))
    return made


def _blocks(table: LabTable) -> Group:
    """A block for each row, with a line for each cell that is not empty."""
    rows = [
        {name: written(cell) for name, cell in zip(table.header, row, strict=True) if cell != ""} for row in table.rows
    ]
    return Group(*(Group(show.facts(row), Text()) for row in rows))


def _checks(checks: Sequence[LabCheck]) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column()
    made.add_column(overflow="fold")
    made.add_column(justify="right", no_wrap=True)
    made.add_column(no_wrap=True)
    for check in checks:
        mark = Text(PASSED, style="green") if check.passed else Text(FAILED, style="bold red")
        made.add_row(mark, Text(check.name), Text(written(check.measured)), Text(check.bound))
    return made
