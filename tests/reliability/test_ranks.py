"""What is seen of the processes of a training by ranks."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from headway.reliability.process import start
from headway.reliability.ranks import is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


def _outlived_by_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(60,)).start()
    ctypes.CDLL(None).pthread_exit(None)


def test_a_process_is_alive_as_long_as_one_of_its_threads():
    """A thread that is still dying holds the lock of the run: `--resume` would find the run in use."""
    child = start(_outlived_by_a_thread)
    until = time.monotonic() + 20
    while b") Z" not in Path(f"/proc/{child.pid}/stat").read_bytes() and time.monotonic() < until:
        time.sleep(0.01)
    assert b") Z" in Path(f"/proc/{child.pid}/stat").read_bytes()
    assert is_alive(child.pid)
    child.send(signal.SIGKILL)
    assert child.wait().signal == signal.SIGKILL
    assert not is_alive(child.pid)


def test_a_process_that_is_not_waited_for_is_not_alive():
    child = start(lambda: None)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(child.pid)
    child.wait()
