"""Telling whoever captures a model of the lines that are written with it."""

from __future__ import annotations

from typing import Any


def tell_chosen(model: Any, lines: list[list[list[int]]]) -> None:
    """Tell the journal of a model that is being captured, if it is, the lines (tokens) given for each row."""
    journal = getattr(model, "journal", None)
    if journal is not None:
        journal.chosen(lines)
    for part in getattr(model, "models", ()):  # of an ensemble
        tell_chosen(part, lines)


def tell_begun(model: Any) -> bool:
    """Tell the journal of a model that another text begins, without a new state; whether there is a journal."""
    journal = getattr(model, "journal", None)
    if journal is not None:
        journal.start(lambda: None)
    return journal is not None
