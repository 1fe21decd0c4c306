"""The memory of a search: how much is reserved at first, and the error if there is not enough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headway.errors import ConfigError

POSITIONS = 2**16  # of all rows together, reserved before the first step
LEAST = 64  # of one row


def first_capacity(rows: int, prompt: int, max_tokens: int) -> int:
    """The positions that a cache reserves for each row: all, unless they are many; then it grows as it is filled."""
    return prompt + min(max_tokens, max(POSITIONS // max(rows, 1), LEAST))


@contextmanager
def memory_errors(settings: str) -> Iterator[None]:
    """While open, a failed allocation becomes a ConfigError that names the settings to reduce."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _is_allocation(error):
            raise
        raise ConfigError(f"{settings}: the search does not fit into memory; reduce them or the batch") from error


def _is_allocation(error: Exception) -> bool:
    # On a CPU torch raises a plain RuntimeError; its text is all there is to tell it by.
    told = str(error)
    return (
        isinstance(error, MemoryError | torch.OutOfMemoryError)
        or "can't allocate memory" in told
        or "Storage size calculation overflowed" in told
    )
