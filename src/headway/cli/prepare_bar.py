"""What a user sees while a store is prepared: a bar by bytes at a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from headway.cli.console import SafeConsole
from headway.cli.terminal import is_terminal, tell
from headway.cli.units import bytes_text, count_text
from headway.data.store_writer import PrepareWatcher

EVERY = 30.0  # seconds between the lines of a log


class PrepareBar(PrepareWatcher):
    """The progress of `headway prepare`; a context manager."""

    def __init__(self, name: str) -> None:
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
            TextColumn("{task.fields[tokens]}"), TimeRemainingColumn(),
        )  # fmt: skip
        self.watched = is_terminal(sys.stderr)
        self.bar = Progress(*columns, console=SafeConsole(stderr=True), transient=True, disable=not self.watched)
        self.task = self.bar.add_task(name, total=None, tokens="")
        self.what, self.total, self.done, self.tokens, self.told = "", 0, 0, 0, time.monotonic()

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def began(self, what: str, total: int) -> None:
        """A phase began."""
        self.what, self.total, self.done, self.tokens = what, total, 0, 0
        self.bar.reset(self.task, description=what, total=total or None, tokens="")
        if not self.watched:
            tell(f"{what}{f' {bytes_text(total)}' if total else ''}")

    def advanced(self, count: int, tokens: int) -> None:
        """Bytes and tokens more."""
        self.done, self.tokens = self.done + count, self.tokens + tokens
        self.bar.update(self.task, completed=self.done, tokens=f"{count_text(self.tokens)} tokens" if tokens else "")
        if not self.watched and time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            of = f" of {bytes_text(self.total)}" if self.total else ""
            tell(f"{self.what}: {bytes_text(self.done)}{of}, {count_text(self.tokens)} tokens")

    def note(self, text: str) -> None:
        """A line."""
        tell(text)
