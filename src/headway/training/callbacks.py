"""The interface of training callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


class Callback(Protocol):
    """Receives the progress of a training run."""

    def step(self, entry: dict[str, Any]) -> None:
        """After every step: step, loss, learning_rate, tokens."""

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """After every evaluation: step, val_loss and further values of the task."""

    def note(self, text: str) -> None:
        """A message of one line for the user."""

    def preparing(self, what: str, done: int, total: int) -> None:
        """While data is prepared: `done` of `total` items."""


@runtime_checkable
class PlanCallback(Protocol):
    """A callback that gets the plan of the training; other callbacks get a note for each fact."""

    def planned(self, steps: int, facts: Mapping[str, str]) -> None:
        """Before the first step: how many steps there are, and what is trained, on what data, to where."""


class SilentCallback:
    """A callback that does nothing."""

    def step(self, entry: dict[str, Any]) -> None:
        """Nothing."""

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def preparing(self, what: str, done: int, total: int) -> None:
        """Nothing."""
