"""Being asked to stop: the first signal is remembered until the step at hand is done."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from headway.errors import HeadwayError


class Interrupted(HeadwayError):  # noqa: N818  # no error: somebody asked
    """A signal asked for an end; the run was saved first."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} and saved at step {step}; --resume goes on")
        self.exit_code = 128 + number


class Asked:
    """The signal that asked for an end, if one did."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.number: int | None = None
        self.note = note

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """The first SIGINT or SIGTERM ends training after the step at hand; a second one ends the process at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self.number:
                os._exit(128 + number)
            self.number = number
            self.note("saving at the end of this step; once more to stop at once")

        try:
            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: signals are somebody else's
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
