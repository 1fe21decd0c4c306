"""SIGINT, SIGTERM and SIGHUP: a command ends where it is, with whole lines and without a traceback.

Training has its own handlers while it has something to save (headway.training.signals).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks the last


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; a BaseException, as KeyboardInterrupt is."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class SignalGuard:
    """Turns signals into exceptions, and keeps them back while lines are written."""

    def __init__(self) -> None:
        self.held = False
        self.pending: int | None = None
        self.raised: BaseException | None = None  # the exception of a signal that arrived

    def cause(self, error: BaseException) -> BaseException:
        """What ended the command: the signal, if one arrived and was not raised to the end.

        Raised in the middle of an import, for instance, it makes the module's own code fail in another way.
        """
        return error if self.raised is None else self.raised

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Raise KeyboardInterrupt or Terminated when a signal arrives; an ignored SIGHUP stays ignored (nohup)."""
        numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
        self.pending = self.raised = None
        unraisable = sys.unraisablehook
        try:
            before = {
                number: signal.signal(number, self._handle)
                for number in numbers
                if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN
            }
        except ValueError:  # not in the main thread, which alone can handle signals
            yield
            return
        sys.unraisablehook = lambda given: None if self.raised is not None else unraisable(given)
        try:
            yield
        finally:
            sys.unraisablehook = unraisable
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Keep a signal back until the block ends; a second one ends the process at once.

        A mask of signals would not do: other threads would still receive them, for Python to act on in this one.
        """
        self.held = True
        try:
            yield
        finally:
            self.held = False
        if self.pending is not None:
            number, self.pending = self.pending, None
            self._raise(number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.held:
            self._raise(number)
        if self.pending is not None:  # a second signal: the write may be blocked for ever, for instance by a full pipe
            os._exit(128 + number)
        self.pending = number

    def _raise(self, number: int) -> None:
        if number == signal.SIGINT:
            self.raised = KeyboardInterrupt()
        else:
            signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
            self.raised = Terminated(number)
        raise self.raised


SIGNALS = SignalGuard()
