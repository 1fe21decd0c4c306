"""Trainings by several ranks, as `headway train --nproc` runs them, which are watched and disturbed from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headway.reliability.process import Child, Ended, start
from headway.reliability.row import Place
from headway.reliability.training import CPU_SECONDS, Training, difference, final_state
from headway.training.launching import Launcher, RankProcess, die_with

PARTS = {"train.accumulate": 4, "train.precision": "fp32"}  # 1, 2 and 4 ranks share them out
SHARDED = {"train.shard": "full"}
ASYNC = {"train.save_async": True}
SHORT = 2  # tasks of the short form, besides one with other settings
SEEN = "seen"  # a file with the times at which the launcher saw that a rank had failed
JOB = "job"  # below the folder of a training: by what its ranks find each other
PATIENCE = 300.0  # seconds for one training, also on a busy machine
POLL = 0.005
LOOK = 0.05  # seconds between two looks at what the processes listen at
LOOPBACK = {"tcp": "0100007F", "tcp6": "00000000000000000000000001000000"}  # 127.0.0.1 and ::1 in /proc/net
Before = Callable[[int, int], object]  # what a rank does first, by the number of the attempt and its own


class ForkedRank:
    """A rank that was forked, to the launcher what a `subprocess.Popen` is; appends to `seen` when it failed."""

    def __init__(self, child: Child, errors: Path | None, seen: Path) -> None:
        self.child, self.errors, self.seen, self.pid = child, errors, seen, child.pid
        self.returncode: int | None = None
        self.killed = False  # by the launcher

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None and (ended := self.child.poll(PATIENCE)) is not None:
            self.returncode = ended.code if ended.code is not None else -(ended.signal or 0)
            if self.returncode and not self.killed:
                with self.seen.open("a") as file:
                    file.write(f"{time.monotonic()}\n")
            if self.errors is None:
                sys.stderr.write(ended.err)
            else:
                self.errors.write_text(ended.err)
        return self.returncode

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.returncode is None:
            self.killed = True
            self.child.send(signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end -> its exit code."""
        while (code := self.poll()) is None:
            time.sleep(POLL)
        return code


class RankedTraining:
    """A training by several ranks that runs in a child, which launches them and starts them again."""

    def __init__(self, child: Child, count: int) -> None:
        self.child, self.count = child, count
        self.ended: Ended | None = None
        self.seen: set[int] = set()  # the processes of all attempts so far
        self.far: set[str] = set()  # addresses off the loopback interface at which one of them has listened
        self._looked = 0.0

    def running(self) -> bool:
        """Whether the launcher runs; looks at what it and its ranks listen at."""
        self.ended = self.ended or self.child.poll(PATIENCE)
        if self.ended is None and time.monotonic() > self._looked + LOOK:
            found = listeners([self.child.pid, *children_of(self.child.pid)])
            self.far.update(each for each in found if is_far(each))
            self._looked = time.monotonic()
        return self.ended is None

    def sleep(self, seconds: float) -> None:
        """Wait for this time, or until the launcher has ended."""
        until = time.monotonic() + seconds
        while self.running() and time.monotonic() < until:
            time.sleep(POLL)

    def ranks(self, but: Collection[int] = ()) -> list[int]:
        """Wait for all ranks of an attempt, other than that of the processes `but`; empty once the launcher ended."""
        while self.running():
            found = children_of(self.child.pid)
            if len(found) == self.count and not set(found) & set(but):
                self.seen.update(found)
                return found
            time.sleep(POLL)
        return []

    def wait(self) -> Ended:
        """Wait for the end of the launcher."""
        while self.running():
            time.sleep(POLL)
        assert self.ended is not None
        return self.ended

    def left_behind(self, seconds: float = 1.0) -> str | None:
        """What is wrong if a rank outlives the launcher by this time, or if one has listened for other machines."""
        if self.far:
            return f"listened at {', '.join(sorted(self.far))}"
        until = time.monotonic() + seconds
        while alive := [pid for pid in self.seen if is_alive(pid)]:
            if time.monotonic() > until:
                return f"{len(alive)} of {len(self.seen)} processes were left behind"
            time.sleep(POLL)
        return None


@dataclass(frozen=True, slots=True)
class RankedTarget:
    """A training by ranks, and what it ends as without a disturbance."""

    training: Training
    sharded: bool  # all ranks write checkpoints, and the sums are those of this number of ranks alone
    state: dict[str, str]
    points: int  # operations of rank 0's disk
    seconds: float

    @property
    def name(self) -> str:
        """For messages."""
        beside = ", saved by a thread" if self.training.config.train.save_async else ""
        return f"{self.training.tiny.task}{', sharded' if self.sharded else ''}{beside}"

    def start(self, folder: Path, count: int, before: Before | None = None, *, resume: bool = False) -> RankedTraining:
        """Train, or go on, by `count` ranks into the folder `run` of a folder."""
        launcher = _launcher(self.training, folder, count, before, resume)
        return RankedTraining(start(launcher, cpu_seconds=CPU_SECONDS), count)  # a limit that ranks inherit

    def difference(self, folder: Path, *, older: bool = True) -> str | None:
        """The first way in which a run differs from the undisturbed one."""
        return difference(self.state, folder, older=older)


def _launcher(
    training: Training, folder: Path, count: int, before: Before | None, resume: bool
) -> Callable[[], object]:
    def start_rank(number: int, environment: Mapping[str, str], errors: Path | None) -> RankProcess:
        with_parent, attempt = die_with(os.getpid()), int(environment["TORCHELASTIC_RESTART_COUNT"])

        def prepare() -> None:
            if with_parent is not None:
                with_parent()
            if before is not None:
                before(attempt, number)

        child = training.start(folder, resume=resume, before=prepare, command=True, environment=environment)
        return ForkedRank(child, errors, folder / SEEN)

    def work() -> int:
        job = folder / JOB / str(time.monotonic_ns())
        job.mkdir(parents=True)
        return Launcher(count, job, start_rank, lambda text: print(text, file=sys.stderr, flush=True)).run()

    return work


def ranked_targets(place: Place, home: Path) -> list[RankedTarget]:
    """Trainings that ranks can share, each done by one process and by two without a disturbance.

    Raises RuntimeError if these two differ. In the short form there are few.
    """
    found: list[RankedTarget] = []
    for made in place.runs.values():
        if made.tiny.trained and made.tiny.accumulates and (place.long or len(found) < SHORT):
            target = _target(Training.of(made.tiny, home, PARTS), home, place)
            found += [] if target is None else [target]
    # One of them also with a thread that saves, and with shards: by two ranks, the sums of one process are other ones.
    more: tuple[Mapping[str, object], ...] = (ASYNC, SHARDED, {**SHARDED, **ASYNC})
    return found + [
        target
        for each in found[:1]
        for changes in more
        if (target := _target(Training.of(each.training.tiny, home, {**PARTS, **changes}), home, place))
    ]


def _target(training: Training, home: Path, place: Place) -> RankedTarget | None:
    """The undisturbed training; None, with a note, if it cannot be shared out."""
    sharded = training.config.train.shard != "none"
    made = RankedTarget(training, sharded, {}, 0, 0.0)
    folders = {count: home / f"{training.file.stem}-{count}" for count in ((2,) if sharded else (1, 2))}
    for count, folder in folders.items():
        folder.mkdir()
        ended = made.start(folder, count, _tell_points if count == 2 else None).wait()
        if ended.code == 2 and count == 2:
            place.note(f"task {training.tiny.task} by two ranks: {ended.err.strip().splitlines()[-1]}")
            return None
        if ended.code != 0:
            raise RuntimeError(f"training {training.file.name} by {count} ranks failed: {ended}")
        made = replace(made, state=made.state or final_state(folder), seconds=ended.seconds)
    if wrong := difference(made.state, folders[2]):
        raise RuntimeError(f"training {training.file.name} by two ranks: {wrong}")
    return replace(made, points=len((folders[2] / "points").read_text().splitlines()))


def _tell_points(attempt: int, rank: int) -> None:
    """Count the operations of rank 0's disk, in a file: its stdout is not that of the launcher."""
    from headway.reliability.disks import WatchedDisk, use

    class Counting(WatchedDisk):
        def point(self, number: int, half: Callable[[], None]) -> None:
            with open("points", "a") as file:
                file.write(f"{number}\n")

    if rank == 0:
        use(Counting())


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet waited for does not.

    Each of its threads counts: the first may be dead while another still has the files open, and so their locks.
    """
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if (thread / "stat").read_bytes().rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"]):
                    return True
    return False


def listeners(pids: Collection[int]) -> list[str]:
    """The addresses at which these processes listen, as /proc/net has them: "tcp 0100007F:BEEF"."""
    own = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            own |= {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = []
    for table in LOOPBACK:
        with contextlib.suppress(OSError):  # a system without IPv6
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                    found.append(f"{table} {fields[1]}")
    return found


def is_far(listener: str) -> bool:
    """Whether other machines could reach it."""
    table, _, address = listener.partition(" ")
    return not address.startswith(LOOPBACK[table])
