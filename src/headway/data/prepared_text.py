"""Text that was tokenised before, in any form that is read: found by its path."""

from __future__ import annotations

from pathlib import Path

from headway.data.binary_tokens import binary_paths, open_binary
from headway.data.prepared_store import is_store, open_store
from headway.data.token_stream import PreparedText
from headway.data.tokenizers import Tokenizer


def is_prepared(path: Path) -> bool:
    """Whether there is prepared text at a path."""
    return is_store(path) or bool(binary_paths(path))


def find_prepared(spec: str, tokenizer: Tokenizer | None = None) -> PreparedText | None:
    """The prepared text at a path, of which no token is read yet; None for anything else. Raises DataError.

    `tokenizer` is that of a run, for files that do not name theirs.
    """
    try:
        path = Path(spec).expanduser()
    except RuntimeError:  # the home of an unknown user
        return None
    if is_store(path):
        return open_store(path)
    return open_binary(path, tokenizer) if binary_paths(path) else None
