"""Writes the table of tasks and commands into docs/commands.md, from the registry of tasks; `--check` only compares."""

from __future__ import annotations

import sys

from headway.tasks.base import supported
from headway.tasks.capabilities import CAPABILITIES
from headway.tasks.registry import TASKS
from tools.generated import DOCS, replace_part, write_or_check

PAGE = DOCS / "commands.md"
BEGIN, END = "<!-- written by `make task-table` -->", "<!-- end of the written part -->"
OTHERS = ("evaluate", "look", "verify", "export")  # commands that are methods of every pipeline that has them
YES = "✓"


def verbs() -> list[str]:
    """The commands that some run lacks, in the order of the columns."""
    return [*(each.verb for each in CAPABILITIES), *OTHERS]


def table() -> str:
    """A row for each built-in task: its name, what a run of it is called, and the commands that work on such a run."""
    header = ["task", "a run is a", *(f"`{verb}`" for verb in verbs())]
    lines = [_row(header), _row(["---", "---", *[":-:" for _ in verbs()]])]
    for name in TASKS.homes:
        task = TASKS[name]
        can = supported(task.pipeline_class())
        assert set(can) <= set(verbs())
        lines.append(_row([f"`{name}`", task.title, *(YES if verb in can else "" for verb in verbs())]))
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def written(page: str) -> str:
    """A page with the table between its markers."""
    return replace_part(page, BEGIN, END, table())


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: written(PAGE.read_text(encoding="utf-8"))}, "make task-table"))
