"""Children of the campaign: what they wrote, how they ended, and what is noticed about them."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from headway.reliability.process import CLOSED, run_command, start


def test_a_child_is_captured():
    def work() -> int:
        print(sys.stdin.read().upper())
        print("told", file=sys.stderr)
        return 3

    ended = start(work, stdin=b"given").wait()
    assert (ended.code, ended.signal, ended.out, ended.err) == (3, None, "GIVEN\n", "told\n")
    assert ended.problem is None
    assert str(ended) == "exit code 3: told"


def test_an_exception_is_a_traceback_and_exit_code_1_as_in_python():
    def work() -> None:
        raise ValueError("no")

    ended = start(work).wait()
    assert ended.code == 1
    assert ended.problem == "traceback: ValueError: no"


def test_an_undocumented_exit_code_and_a_signal_are_problems():
    assert start(lambda: 77).wait().problem == "exit code 77, which is not documented: nothing on stderr"
    ended = start(lambda: os.kill(os.getpid(), signal.SIGTERM)).wait()
    assert ended.problem == "ended by SIGTERM: nothing on stderr"


def test_waiting_and_computing_for_too_long_are_hangs():
    ended = start(lambda: time.sleep(60)).wait(seconds=0.2)
    assert ended.hung
    assert ended.problem.startswith("took too long")

    def compute() -> None:
        while True:
            pass

    ended = start(compute, cpu_seconds=1).wait()
    assert ended.hung
    assert ended.cpu_seconds < 5


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much memory a process has")
def test_too_much_memory_is_noticed(monkeypatch):
    monkeypatch.setattr("headway.reliability.process.MEMORY", 50 * 2**20)

    def fill() -> None:
        held = []
        while True:
            held.append(bytearray(b"x" * 2**22))
            time.sleep(0.005)

    ended = start(fill).wait()
    assert ended.problem.endswith("GiB of memory")
    assert ended.memory < 2**30


def test_closed_files_are_as_python_has_them():
    ended = start(lambda: 0 if sys.stdin is None and sys.stdout is None else 1, stdin=CLOSED, stdout=CLOSED).wait()
    assert (ended.code, ended.out) == (0, "")


@pytest.mark.parametrize("cold", [False, True])
def test_a_command_runs_as_from_a_shell(tmp_path, cold):
    ended = run_command(["info", "nowhere"], cwd=tmp_path, cold=cold)
    assert ended.code == 4
    assert ended.err == "headway: nowhere: no such run (it has no config.yaml); `headway runs` lists them\n"
    ended = run_command(["--version"], cold=cold)
    assert ended.code == 0
    assert ended.out.startswith("headway ")
    ended = run_command(["--nonsense"], cold=cold)
    assert ended.code == 2
    assert ended.problem is None
