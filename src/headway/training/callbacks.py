"""What is said of a training as it goes on."""

from __future__ import annotations

from typing import Any, Protocol


class Watcher(Protocol):
    """Who wants to see training go by."""

    def step(self, entry: dict[str, Any]) -> None:
        """After every step: step, loss, learning_rate, tokens."""

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """After every evaluation: step, val_loss and what the task has beside it."""

    def note(self, text: str) -> None:
        """One line for the user."""

    def preparing(self, what: str, done: int, total: int) -> None:
        """While data is made ready: so many are done of so many."""
