"""Events of a search, for observers such as `headway.inspection.capture`.

Observers are kept in a context variable, so that models carry no attribute for them. A search that runs in a thread
started elsewhere has a context of its own and reports to no observer of this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class SearchObserver(Protocol):
    """Callbacks for the searches made with one model."""

    def search_started(self) -> None:
        """A new sequence begins on a state that is reused; every other sequence begins with `model.start`."""
        ...

    def search_finished(self, hypotheses: list[list[list[int]]]) -> None:
        """The search returns these hypotheses (tokens) for each row, best first."""
        ...


_observers: ContextVar[tuple[tuple[object, SearchObserver], ...]] = ContextVar("search_observers", default=())


@contextmanager
def observe_searches(model: object, observer: SearchObserver) -> Iterator[None]:
    """While open, `observer` is called for searches with `model`, alone or as a member of an ensemble."""
    _observers.set((*_observers.get(), (model, observer)))
    try:
        yield
    finally:  # not ContextVar.reset, which fails where a notebook leaves the block in another context
        _observers.set(tuple(pair for pair in _observers.get() if pair[1] is not observer))


def search_started(model: Any) -> bool:
    """Report that a new sequence begins on a reused state; returns whether the model is observed."""
    found = _observers_of(model)
    for observer in found:
        observer.search_started()
    return bool(found)


def searches_observed(model: Any) -> bool:
    """Whether searches with the model are observed."""
    return bool(_observers_of(model))


def search_finished(model: Any, hypotheses: list[list[list[int]]]) -> None:
    """Report the hypotheses (tokens) that a search returns for each row, best first."""
    for observer in _observers_of(model):
        observer.search_finished(hypotheses)


def _observers_of(model: Any) -> list[SearchObserver]:
    pairs = _observers.get()
    if not pairs:
        return []
    members = list(_members(model))
    return [observer for observed, observer in pairs if any(observed is member for member in members)]


def _members(model: Any) -> Iterator[object]:
    """The model itself, the module inside `torch.compile`'s wrapper, and the members of an ensemble."""
    yield model
    inner = getattr(model, "_orig_mod", None)
    if inner is not None:
        yield inner
    for member in getattr(model, "models", ()):
        yield from _members(member)
