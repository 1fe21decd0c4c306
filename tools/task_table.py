"""Writes the table of tasks and commands into docs/commands.md, from the registry of tasks; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from headway.tasks.base import supported
from headway.tasks.capabilities import CAPABILITIES
from headway.tasks.registry import TASKS

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
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
    """A page with the table between its markers. Raises ValueError for a page without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"docs/{PAGE.name} lacks {END if begin else BEGIN}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    """Write the table, or check it."""
    page = PAGE.read_text()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(written(page))
        return 0
    if written(page) == page:
        return 0
    print(f"the table of tasks in docs/{PAGE.name} is not current: run `make task-table`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
