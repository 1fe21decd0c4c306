"""Lines from stdin and to stdout, in blocks; only whole lines are written, even if the program is stopped."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from headway.cli.stopping import SIGNALS
from headway.cli.terminal import is_terminal, one_line, tell
from headway.errors import DataError, HeadwayError

if TYPE_CHECKING:
    from rich.progress import Progress

FILE_NAME = re.compile(r"[\w./~-]+\.[A-Za-z][A-Za-z0-9]{1,4}")  # one word with an ending, such as new.de
BEGINNING = 1024  # bytes of a file that are looked at


def stdin_lines() -> Iterator[str]:
    """The lines of stdin without their ends, whatever the encoding of the locale.

    Raises DataError if stdin is closed or cannot be read, with line and byte for invalid UTF-8, and for a line above
    the limit.
    """
    if sys.stdin is None:
        raise DataError("stdin: closed; give the input as arguments, or on stdin by a pipe or a file")
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:  # replaced by text, as in tests
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    from headway.data.line_files import decoded_lines  # imports numpy, which `headway --help` does not need

    yield from decoded_lines(stream, "stdin")


def note_files(texts: Iterable[str], verb: str = "") -> None:
    """Say on stderr that a text is taken as it stands which is the name of a file, or reads as the name of one.

    `verb` is what the command does to the lines of a file on stdin, empty if it reads none.
    """
    for text in texts:
        if os.path.isfile(text):
            kind, advice = "a file", f"; pass < {text} to {verb} its lines" if verb else ""
            if not _is_text(text):
                kind, advice = "not a file of text", ""
            tell(f"note: {text} is {kind}, and its name is taken for the text{advice}")
        elif FILE_NAME.fullmatch(text):
            tell(f"note: there is no file {text}; it is taken for the text")


def _is_text(path: str) -> bool:
    """Whether the beginning of a file holds no byte that no text has; a file that cannot be read counts as text."""
    with suppress(OSError), open(path, "rb") as file:
        return b"\0" not in file.read(BEGINNING)
    return True


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
    """Whole lines, or none of them: a signal waits until they are written."""
    with SIGNALS.holding():
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()


class LineCounter:
    """Lines so far and lines a second on stderr, if that is a terminal and shows nothing else."""

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
        if self.bar is None:
            tell(f"note: {text}")
        else:
            self.bar.console.print(f"headway: note: {one_line(text)}", soft_wrap=True, markup=False)


def _bar() -> Progress:
    from rich.progress import Progress, SpinnerColumn, TextColumn  # rich takes as long to import as a sentence takes

    from headway.cli.console import SafeConsole

    columns = (SpinnerColumn(), TextColumn("{task.completed:,} lines"), TextColumn("{task.fields[speed]}"))
    # Left to itself the bar would take what is written to stdout for notes of its own.
    bar = Progress(*columns, console=SafeConsole(stderr=True), transient=True, redirect_stdout=False)
    bar.add_task("", total=None, speed="")
    return bar
