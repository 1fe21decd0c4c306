"""The table of limits in docs/commands.md is that of headway.limits."""

from __future__ import annotations

from tools import limit_table


def test_the_table_is_current():
    page = limit_table.PAGE.read_text()
    assert limit_table.written(page) == page, "run `make limit-table`"
