"""Writes the table of limits into docs/commands.md, from headway.limits; `--check` only compares."""

from __future__ import annotations

import sys

from headway.limits import LIMITS
from tools.generated import DOCS, replace_part, write_or_check

PAGE = DOCS / "commands.md"
BEGIN, END = "<!-- written by `make limit-table` -->", "<!-- end of the limits -->"


def table() -> str:
    """A row for each limit."""
    rows = [f"| `{name}` | {limit.value:,} | {limit.unit} | {limit.of} |" for name, limit in LIMITS.items()]
    return "\n".join(["| limit | default | unit | of |", "| --- | ---: | --- | --- |", *rows])


def written(page: str) -> str:
    """A page with the table between its markers."""
    return replace_part(page, BEGIN, END, table())


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: written(PAGE.read_text(encoding="utf-8"))}, "make limit-table"))
