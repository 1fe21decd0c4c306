"""Writes the table of limits into docs/commands.md, from headway.limits; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from headway.limits import LIMITS

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
BEGIN, END = "<!-- written by `make limit-table` -->", "<!-- end of the limits -->"


def table() -> str:
    """A row for each limit."""
    rows = [f"| `{name}` | {limit.value:,} | {limit.unit} | {limit.of} |" for name, limit in LIMITS.items()]
    return "\n".join(["| limit | default | unit | of |", "| --- | ---: | --- | --- |", *rows])


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
    print(f"the table of limits in docs/{PAGE.name} is not current: run `make limit-table`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
