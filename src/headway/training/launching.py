"""The ranks of one training on this machine: started, watched, and started again when one of them fails.

A plain alternative to torchrun's agent for a fixed number of ranks: they find each other by a file, so that nothing
listens but the ranks themselves, on the loopback interface. All ranks end with the first that fails, and all start
again from the last checkpoint unless the failure would only repeat itself. How a process is started is for the caller
to say: `headway train --nproc` starts commands. This module does not import torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from headway.cores import cores

RESTARTS = 3  # in a row without a new checkpoint
POLL = 0.05  # seconds between two looks at the ranks
STOPPED = 10.0  # seconds after which a stopped rank (SIGSTOP) is taken for lost
GRACE = 30.0  # seconds for rank 0 to end after another has reported an error, for instance to draw the curves
COLLATERAL = 1.0  # seconds to wait for the rank whose end made others lose contact, and for ranks that have no rank 0
LOST_CONTACT = 10  # the exit code of RankError
REPORTED = frozenset({2, 3, 4, 5, 6, 7, 8, 9, 129, 130, 143})  # exit codes of what would only repeat itself
PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


class RankProcess(Protocol):
    """The process of a rank, as `subprocess.Popen` has it."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...

    def wait(self) -> int:
        """Wait for its end -> its exit code."""
        ...


# Starts rank `number` with these variables in its environment, and its stderr in a file if one is given.
Start = Callable[[int, Mapping[str, str], Path | None], RankProcess]


@dataclass(slots=True)
class Rank:
    """A running rank."""

    number: int
    process: RankProcess
    errors: Path | None  # what it writes to stderr; rank 0 writes to that of this process
    stopped_since: float | None = None

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self.process.poll()

    @property
    def ending(self) -> str:
        """How it ended, for people."""
        code = self.code
        if code is not None and code < 0:
            return f"rank {self.number} was ended by {signal.Signals(-code).name}"
        return f"rank {self.number} ended with exit code {code}"


@dataclass(slots=True)
class Launcher:
    """Starts `count` ranks and brings them to one end."""

    count: int
    folder: Path  # of this job, for what the ranks find each other by
    start: Start
    tell: Callable[[str], None]  # of what happens, for people
    ranks: list[Rank] = field(default_factory=list)
    signal: int | None = None  # that was asked to end

    def run(self) -> int:
        """The exit code of all attempts."""
        attempt, left, saved = 0, RESTARTS, self._saved()
        with self._forwarding(), self._no_rank_left():
            while True:
                self._start(attempt)
                code, why = self._watch()
                if not why or self.signal is not None:
                    return code
                if self._saved() != saved:
                    left, saved = RESTARTS, self._saved()
                if not left:
                    self.tell(f"{why}; given up after {RESTARTS} restarts without a new checkpoint")
                    return code
                attempt, left = attempt + 1, left - 1
                self.tell(f"{why}; all {self.count} ranks start again from the last checkpoint")

    def _saved(self) -> int:
        path = self.folder / "saved"
        return path.stat().st_mtime_ns if path.exists() else 0

    def _start(self, attempt: int) -> None:
        shared = {
            "WORLD_SIZE": str(self.count),
            "LOCAL_WORLD_SIZE": str(self.count),
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "HEADWAY_STORE": str(self.folder / f"store-{attempt}"),
            "HEADWAY_SAVED": str(self.folder / "saved"),
            "GLOO_SOCKET_IFNAME": LOOPBACK,
            "NCCL_SOCKET_IFNAME": LOOPBACK,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(max(cores() // self.count, 1)),
        }
        self.ranks = []
        for number in range(self.count):
            errors = self.folder / f"rank-{number}.txt" if number else None
            environment = {**shared, "RANK": str(number), "LOCAL_RANK": str(number)}
            self.ranks.append(Rank(number, self.start(number, environment, errors), errors))

    def _watch(self) -> tuple[int, str]:
        """Wait until all ranks have ended -> the exit code, and why to start again, or nothing."""
        while True:
            codes = [rank.code for rank in self.ranks]
            if all(code == 0 for code in codes):
                return 0, ""
            if any(codes):
                return self._ended()
            self._end_stopped()
            time.sleep(POLL)

    def _ended(self) -> tuple[int, str]:
        """Once a rank has failed, bring the others to an end."""
        first = next(rank for rank in self.ranks if rank.code)
        if first.code == LOST_CONTACT:
            _wait(COLLATERAL, until=lambda: any(rank.code not in (None, 0, LOST_CONTACT) for rank in self.ranks))
            first = next((rank for rank in self.ranks if rank.code not in (None, 0, LOST_CONTACT)), first)
        code = first.code or 0
        if code in REPORTED:
            _wait(GRACE, until=lambda: self.ranks[0].code is not None)
            _wait(COLLATERAL, until=lambda: all(rank.code is not None for rank in self.ranks))
        by_itself = self.ranks[0].code in REPORTED
        self._kill()
        if self.signal is not None:
            return 128 + self.signal if code < 0 or code == LOST_CONTACT else code, ""
        if not by_itself and first.number:
            self._show(first)
        return (128 - code if code < 0 else code), ("" if code in REPORTED else first.ending)

    def _end_stopped(self) -> None:
        """Kill a rank that has been stopped for long: it can neither go on nor end."""
        for rank in self.ranks:
            if not _is_stopped(rank.process.pid):
                rank.stopped_since = None
            elif rank.stopped_since is None:
                rank.stopped_since = time.monotonic()
            elif time.monotonic() - rank.stopped_since > STOPPED:
                self.tell(f"rank {rank.number} has been stopped for {STOPPED:.0f} seconds and is killed")
                rank.process.kill()

    def _kill(self) -> None:
        """Kill the ranks that still run, and wait for them; at SIGTERM they would try to save together."""
        for rank in self.ranks:
            if rank.code is None:
                rank.process.kill()
        for rank in self.ranks:
            rank.process.wait()

    def _show(self, rank: Rank) -> None:
        """What a rank has written last, of a failure that rank 0 does not know of."""
        text = rank.errors.read_text(errors="replace").strip() if rank.errors else ""
        for line in text.splitlines()[-20:]:
            self.tell(f"rank {rank.number}: {line.removeprefix('headway: ')}")

    @contextlib.contextmanager
    def _no_rank_left(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._kill()

    @contextlib.contextmanager
    def _forwarding(self) -> Iterator[None]:
        """Pass SIGINT, SIGTERM and SIGHUP on to all ranks; an ignored SIGHUP stays ignored (nohup)."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.signal = number
            for rank in self.ranks:
                if rank.process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(rank.process.pid, number)

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {n: signal.signal(n, handle) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _wait(seconds: float, *, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not until():
        time.sleep(POLL)


def _is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal, where the system shows it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return status.rpartition(b")")[2].split()[:1] == [b"T"]


def die_with(parent: int) -> Callable[[], None] | None:
    """For a new process, before it becomes a rank: be killed when the parent dies, however that happens. On Linux."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before that
            os._exit(1)

    return prepare
