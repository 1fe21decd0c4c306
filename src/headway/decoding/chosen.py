"""Telling whoever captures a model which lines a search gave in the end."""

from __future__ import annotations

from typing import Any


def tell_chosen(model: Any, lines: list[list[list[int]]]) -> None:
    """Tell the journal of a model that is being captured, if it is, the lines (tokens) given for each row."""
    journal = getattr(model, "journal", None)
    if journal is not None:
        journal.chosen(lines)
    for part in getattr(model, "models", ()):  # of an ensemble
        tell_chosen(part, lines)
