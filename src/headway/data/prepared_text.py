"""Text that was tokenised before, in any form that is read: found by its path."""

from __future__ import annotations

from pathlib import Path

from headway.data.prepared_store import is_store, open_store
from headway.data.token_stream import PreparedText


def is_prepared(path: Path) -> bool:
    """Whether there is prepared text at a path."""
    return is_store(path)


def find_prepared(spec: str) -> PreparedText | None:
    """The prepared text at a path, of which no token is read yet; None for anything else. Raises DataError."""
    path = Path(spec).expanduser()
    return open_store(path) if is_store(path) else None
