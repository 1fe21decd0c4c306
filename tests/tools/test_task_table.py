"""The table of tasks and commands in docs/commands.md is what the pipelines say."""

from __future__ import annotations

from headway.cli.commands import COMMANDS
from headway.tasks.registry import TASKS
from tools import task_table


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_is_current():
    page = task_table.PAGE.read_text()
    assert task_table.written(page) == page, "run `make task-table`"


def test_a_row_says_what_a_run_of_the_task_can_do():
    header, _, *rows = map(cells, task_table.table().splitlines())
    columns = [name.strip("`") for name in header[2:]]
    assert set(columns) <= set(COMMANDS)
    assert [row[0].strip("`") for row in rows] == list(TASKS.homes)
    for row in rows:
        task = TASKS[row[0].strip("`")]
        can = [verb for verb, mark in zip(columns, row[2:], strict=True) if mark]
        assert sorted(can) == sorted(task.pipeline_class().can())
