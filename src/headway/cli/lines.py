"""Lines in from stdin, lines out to stdout: in blocks, whole, however the program ends."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from headway.errors import DataError, HeadwayError

if TYPE_CHECKING:
    from rich.progress import Progress


def is_terminal(stream: TextIO | None) -> bool:
    """Whether someone sits at this end; a closed one is None."""
    return stream is not None and stream.isatty()


def stdin_lines() -> Iterator[str]:
    """The lines of stdin without their ends. Raises DataError with line and byte for invalid UTF-8."""
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:  # replaced by text, as in tests
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    for number, line in enumerate(stream, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"stdin: line {number}, byte {error.start + 1}: invalid UTF-8") from None
        yield text.rstrip("\r\n")


def blocks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Blocks of `size` lines; what was read before an error still comes out, then the error."""
    block: list[str] = []
    try:
        for line in lines:
            block.append(line)
            if len(block) == size:
                yield block
                block = []
    except HeadwayError:
        if block:
            yield block
        raise
    if block:
        yield block


def write_lines(lines: Sequence[str]) -> None:
    """Whole lines, or none of them: an interrupt waits until they are written."""
    text = "".join(f"{line}\n" for line in lines)
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    finally:
        if masked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)


class LineCounter:
    """Lines so far and lines a second on stderr, where someone watches and nothing else is shown there."""

    def __init__(self) -> None:
        watched = is_terminal(sys.stderr) and not is_terminal(sys.stdin) and not is_terminal(sys.stdout)
        self.bar = _bar() if watched else None
        self.count, self.started = 0, time.perf_counter()

    def __enter__(self) -> LineCounter:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def advance(self, count: int) -> None:
        """Count lines that were written."""
        self.count += count
        if self.bar is not None:
            speed = self.count / max(time.perf_counter() - self.started, 1e-9)
            self.bar.update(self.bar.task_ids[0], completed=self.count, speed=f"{speed:,.0f} lines/s")

    def note(self, text: str) -> None:
        """A line on stderr, above the bar."""
        line = f"headway: note: {text}"
        if self.bar is None:
            if sys.stderr is not None:  # print would take stdout for it
                print(line, file=sys.stderr)
        else:
            self.bar.console.print(line, soft_wrap=True, markup=False, highlight=False)


def _bar() -> Progress:
    from rich.console import Console  # imported for those who look on: it takes as long as a sentence
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,} lines"), TextColumn("{task.fields[speed]}"))
    # Left to itself the bar would take what is written to stdout for notes of its own.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    bar.add_task("", total=None, speed="")
    return bar
