"""The table of limits in docs/commands.md is that of headway.limits."""

from __future__ import annotations

import pytest

from tools import limit_table


def test_the_table_is_current():
    page = limit_table.PAGE.read_text()
    assert limit_table.written(page) == page, "run `make limit-table`"


def test_a_page_without_the_markers_is_refused():
    with pytest.raises(ValueError, match="lacks"):
        limit_table.written("# Commands\n")
