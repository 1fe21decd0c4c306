"""SIGINT, SIGTERM and SIGHUP during training: stop after the current step, with a checkpoint."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from headway.errors import HeadwayError


class Interrupted(HeadwayError):  # noqa: N818  # requested by the user, not an error
    """Training was stopped by a signal, after a checkpoint was saved."""

    def __init__(self, number: int, step: int, run: Path) -> None:
        super().__init__(
            f"stopped by {signal.Signals(number).name} and saved at step {step}; "
            f"headway train --out {shlex.quote(str(run))} --resume continues it"
        )
        self.exit_code = 128 + number


class StopRequest:
    """The signal that requested an end of training, if any."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.number: int | None = None
        self.note = note

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals: the first is remembered, a second one ends the process at once.

        SIGHUP, which a closed terminal sends, is left alone where it is ignored: `nohup` asked for that.
        """

        def handle(number: int, frame: FrameType | None) -> None:
            if self.number:
                os._exit(128 + number)
            self.number = number
            with contextlib.suppress(Exception):  # a terminal that is gone must not prevent the save
                self.note("saving after this step; press Ctrl-C again to abort without saving")

        numbers = [signal.SIGINT, signal.SIGTERM]
        hangup = getattr(signal, "SIGHUP", None)  # Windows has none
        if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
            numbers.append(hangup)
        try:
            before = {number: signal.signal(number, handle) for number in numbers}
        except ValueError:  # not in the main thread, which alone can handle signals
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
