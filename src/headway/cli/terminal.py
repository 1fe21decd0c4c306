"""What commands print: control characters never reach a terminal, and a stream that fails ends in one line.

While a command runs, `guarded_streams` stands between it and the process's stdout and stderr:

- A terminal obeys control characters: an escape sequence in a data file could change its title or forge its text. On a
  terminal they are shown as \\x1b instead; to a file or a pipe the text goes unchanged.
- stdout that cannot be written is a StorageError; a closed pipe stays a BrokenPipeError.
- stderr only accompanies the work: where it cannot be written (the terminal was closed), the work goes on in silence.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

from headway.errors import StorageError

# C0 but tab and newline, DEL and C1, overrides of the writing direction, and surrogates, which are not characters.
CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(f"[{CONTROL}]")
_UNSAFE_IN_A_LINE = re.compile(f"[{CONTROL}\n\u2028\u2029]")


def escaped(text: str) -> str:
    r"""The text with each control character as \x1b or \u202e; tabs and newlines stay."""
    return _UNSAFE.sub(_code, text)


def one_line(text: str) -> str:
    """The same in one line: a newline inside becomes a space, since error messages of other libraries have them."""
    return _UNSAFE_IN_A_LINE.sub(_code, " ".join(text.strip().split("\n")))


def _code(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def tell(text: str) -> None:
    """One line on stderr, after the name of the program."""
    if sys.stderr is not None:  # print would take stdout for it
        print(f"headway: {one_line(text)}", file=sys.stderr)


def ask_for(question: str) -> None:
    """Write a question to stderr and leave the cursor behind it."""
    print(escaped(question), end="", file=sys.stderr, flush=True)


def print_bytes(data: bytes) -> None:
    """Write bytes to stdout, while that is guarded."""
    cast(GuardedStream, sys.stdout).write_bytes(data)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a closed stream is None."""
    return stream is not None and stream.isatty()


class GuardedStream:
    """stdout or stderr as commands see it; everything but writing is the stream's own."""

    def __init__(self, stream: TextIO | None, name: str, *, needed: bool, escapes: bool) -> None:
        self.stream, self.name, self.needed, self.escapes = stream, name, needed, escapes

    def write(self, text: str) -> int:
        """Write a text, escaped if this is a terminal. Raises StorageError if the stream is needed and fails."""
        with self._failures():
            if self.stream is None:
                raise OSError(errno.EBADF, "it is closed")
            self.stream.write(escaped(text) if self.escapes else text)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Write bytes as they are, after all that was written before. Raises StorageError."""
        with self._failures():
            binary = getattr(self.stream, "buffer", None)
            if self.stream is None or binary is None:
                raise OSError(errno.EBADF, "it is closed")
            self.stream.flush()
            binary.write(data)
            binary.flush()

    def flush(self) -> None:
        """Write what is buffered."""
        with self._failures():
            if self.stream is not None:
                self.stream.flush()

    def isatty(self) -> bool:
        """Whether this is a terminal."""
        return is_terminal(self.stream)

    def plain(self) -> GuardedStream:
        """The same stream without escapes, for what makes styles of its own and escapes its texts itself."""
        return GuardedStream(self.stream, self.name, needed=self.needed, escapes=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("stream"), name)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Errors of a write, as what they mean here."""
        try:
            yield
        except UnicodeEncodeError as error:
            letter = f"U+{ord(error.object[error.start]):04X}"
            raise StorageError(
                f"{self.name}: {letter} cannot be written in {error.encoding}; set PYTHONIOENCODING=utf-8"
            ) from error
        except OSError as error:
            silence(self.stream)
            if not self.needed:
                self.stream = None
            elif isinstance(error, BrokenPipeError):
                raise
            else:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                reason = "no space left" if full else error.strerror or type(error).__name__
                raise StorageError(f"{self.name}: could not be written ({reason})") from error


def plain_stream(stream: TextIO) -> TextIO:
    """The stream without escaping, for rich consoles, which escape texts themselves and colour them."""
    return cast(TextIO, stream.plain()) if isinstance(stream, GuardedStream) else stream


@contextlib.contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard stdout and stderr, and keep the numbers of closed streams from being given to files."""
    _occupy_closed()
    out, err = sys.stdout, sys.stderr
    before = out.errors if isinstance(out, io.TextIOWrapper) else None
    if before == "strict":  # names of files need not be UTF-8: their bytes are written as they are
        cast(io.TextIOWrapper, out).reconfigure(errors="surrogateescape")
    sys.stdout = cast(TextIO, GuardedStream(out, "standard output", needed=True, escapes=is_terminal(out)))
    sys.stderr = cast(TextIO, GuardedStream(err, "standard error", needed=False, escapes=is_terminal(err)))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
        if before == "strict" and not cast(io.TextIOWrapper, out).closed:
            with contextlib.suppress(OSError):
                cast(io.TextIOWrapper, out).reconfigure(errors=before)


def silence(stream: TextIO | None) -> None:
    """Send what is left to print to the null device, else Python fails on it once more when it exits."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as null:
        os.dup2(null.fileno(), stream.fileno())


def _occupy_closed() -> None:
    """Open the null device as 0, 1 and 2 where they are closed.

    The next file would get such a number, and what a C library prints to stderr would go into a checkpoint.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            os.set_inheritable(number, True)
