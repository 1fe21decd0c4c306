"""Signals: whole lines, the exit code of the signal, and no traceback."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import SimpleNamespace

import pytest

from headway.cli import main
from headway.cli.lines import write_lines
from headway.cli.stopping import SignalGuard, Terminated

KINDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated, signal.SIGHUP: Terminated}


@pytest.mark.parametrize(("number", "kind"), KINDS.items())
def test_a_signal_waits_for_lines_that_are_being_written(number, kind):
    guard, written = SignalGuard(), []
    before = signal.getsignal(number)

    def write() -> None:
        with guard.holding():
            os.kill(os.getpid(), number)
            time.sleep(0.01)
            written.append("the rest")

    def wait() -> None:
        os.kill(os.getpid(), number)
        time.sleep(5)
        written.append("not interrupted")

    for act in (write, wait):
        with guard.raising(), pytest.raises(kind):
            act()
    assert written == ["the rest"]
    assert signal.getsignal(number) == before


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalGuard().raising():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGHUP, before)


def ended(number: int, execute: object) -> tuple[int, bytes, bytes]:
    """Fork, run a command that is `execute`, send a signal after its first line: exit code, stdout, stderr."""
    out, err = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        code = 99
        try:
            os.dup2(out[1], 1)
            os.dup2(err[1], 2)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a test run under nohup ignores it, and would go on for ever
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("headway.cli._import_torch", lambda: None)
                patch.setattr("headway.cli.command", lambda name: SimpleNamespace(execute=execute))
                code = main(["presets"])
            sys.stdout.flush()
        finally:
            os._exit(code)
    os.close(out[1])
    os.close(err[1])
    with open(out[0], "rb") as written, open(err[0], "rb") as told:
        first = written.readline()
        os.kill(child, number)
        rest, messages = written.read(), told.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), first + rest, messages


def lines_for_ever(arguments: object) -> None:
    while True:
        write_lines([f"{n} {'x' * 1000}" for n in range(500)])  # far more than a pipe holds


def waits(arguments: object) -> None:
    print("kept in the buffer")
    os.write(1, b"begun\n")  # past the buffer
    time.sleep(20)


@pytest.mark.parametrize("number", KINDS)
def test_a_reader_ends_with_whole_lines_and_the_code_of_the_signal(number):
    code, written, told = ended(number, lines_for_ever)
    assert code == 128 + number
    assert written.endswith(b"x\n")
    assert len(written.splitlines()) % 500 == 0
    assert told == (b"headway: interrupted\n" if number == signal.SIGINT else b"")


def test_what_was_printed_before_a_signal_is_not_lost():
    assert ended(signal.SIGTERM, waits) == (143, b"begun\nkept in the buffer\n", b"")


class _HalfMade:
    """As some library's object whose constructor was interrupted."""

    def __del__(self) -> None:
        raise AttributeError("expr")


def fails_otherwise(arguments: object) -> None:
    """What a module does whose import a signal interrupts."""
    os.write(1, b"begun\n")
    try:
        time.sleep(20)
    except BaseException as error:
        made = _HalfMade()
        del made
        raise ImportError("initialization failed") from error


@pytest.mark.parametrize("number", KINDS)
def test_a_signal_counts_also_where_it_makes_something_else_fail(number):
    """In the middle of an import it came out as an internal error, or as the traceback of an ignored exception."""
    told = b"headway: interrupted\n" if number == signal.SIGINT else b""
    assert ended(number, fails_otherwise) == (128 + number, b"begun\n", told)
