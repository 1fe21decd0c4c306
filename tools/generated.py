"""What the tools that write documents share: the part of a page between two markers, and `--check`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def replace_part(page: str, begin: str, end: str, part: str) -> str:
    """A page with `part` between two markers. Raises ValueError for a page without them."""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page lacks {end if found else begin}")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def write_or_check(contents: Mapping[Path, str], command: str) -> int:
    """Write files, or with `--check` on the command line only compare them; the exit code."""
    if "--check" not in sys.argv[1:]:
        for path, text in contents.items():
            path.write_text(text, encoding="utf-8")
        return 0
    old = [
        path.name for path, text in contents.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if old:
        print(f"not current in docs: {', '.join(old)}; run `{command}`")
    return 1 if old else 0
