"""The engine: tiny runs, workers forked from one warmed process, and the trials of each row handed out to them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from types import FrameType, TracebackType
from typing import Protocol, Self

from headway.cores import cores
from headway.errors import ConfigError
from headway.reliability import process, runs
from headway.reliability.result import CampaignReport, RowResult
from headway.reliability.row import CampaignRow, Outcome, Place, chance_of, failed
from headway.reliability.rows import ROWS, row

MINUTES = 3.0  # of the short form, without the preparation


class CampaignWatcher(Protocol):
    """Receives the progress of a campaign."""

    def preparing(self, what: str) -> None:
        """Before the runs, and before each row, are made ready."""

    def began(self, row: CampaignRow) -> None:
        """Before the first trial of a row."""

    def progress(self, result: RowResult, share: float) -> None:
        """After every trial; `share` of the row is done, from 0 to 1."""

    def ended(self, result: RowResult) -> None:
        """After the last trial of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignConfig:
    """What to try, for how long."""

    rows: Sequence[str] = tuple(ROWS)
    seed: int = 0
    minutes: float | None = None  # None: MINUTES, or in the long form as long as it takes
    long: bool = False
    workers: int = field(default_factory=cores)
    only: tuple[str, int] | None = None  # a row and the number of its one trial to repeat
    trials: int | None = None  # of each row at most
    tasks: Sequence[str] | None = None  # the tasks whose runs are made; None: all

    def __post_init__(self) -> None:
        for name in (*self.rows, *(self.only or ())[:1]):
            if name not in ROWS:
                raise ConfigError(f"no row {name!r}; there are: {', '.join(ROWS)}")

    @property
    def budget(self) -> float | None:
        """The seconds for the trials; None: no limit."""
        if self.minutes is not None:
            return self.minutes * 60
        return None if self.long else MINUTES * 60


class _Stopped(BaseException):
    """A signal asks for the end."""

    def __init__(self, number: int) -> None:
        self.number = number


def run_campaign(config: CampaignConfig, watcher: CampaignWatcher) -> CampaignReport:
    """Run the rows one after the other and report. A signal ends it early: `stopped_by`. Leaves nothing behind."""
    started = time.monotonic()
    report = CampaignReport(seed=config.seed, long=config.long, workers=config.workers)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_temporary())
        try:
            stack.enter_context(_signals())
            watcher.preparing("importing")
            process.warm_up()
            rows = _prepare(config, folder, watcher, stack, report)
            workers = stack.enter_context(Workers(rows, config))
            for each in rows.values():
                result = RowResult(each)
                report.rows.append(result)
                watcher.began(each)
                _run_row(result, workers, config, _share(config, rows, each, report), watcher)
                watcher.ended(result)
        except _Stopped as stop:
            report.stopped_by = stop.number
    report.seconds = time.monotonic() - started
    return report


def _share(
    config: CampaignConfig, rows: Mapping[str, CampaignRow], row: CampaignRow, report: CampaignReport
) -> float | None:
    """The seconds for this row: by weight, of what the rows before it have left."""
    if config.budget is None or config.only is not None:
        return None
    left = config.budget - sum(result.seconds for result in report.rows)
    names = list(rows)
    following = [rows[name].weight for name in names[names.index(row.name) :]]
    return max(left, 0.0) * row.weight / sum(following)


def _run_row(
    result: RowResult, workers: Workers, config: CampaignConfig, seconds: float | None, watcher: CampaignWatcher
) -> None:
    """Hand out the trials of one row until all are done, or the time is over."""
    row, started = result.row, time.monotonic()
    numbers = _numbers(row, config)
    next_number, open_trials = 0, 0
    while True:
        passed = time.monotonic() - started
        over = seconds is not None and passed > seconds and next_number >= row.least
        while workers.idle and next_number < len(numbers) and not over:
            workers.hand_out(row.name, numbers[next_number])
            next_number, open_trials = next_number + 1, open_trials + 1
        if not open_trials:
            break
        for number, outcome in workers.collect():
            result.add(number, outcome)
            open_trials -= 1
        result.seconds = time.monotonic() - started
        done = result.trials / max(len(numbers), 1)
        watcher.progress(result, done if seconds is None else max(done, min(result.seconds / max(seconds, 1e-9), 1.0)))
    result.seconds = time.monotonic() - started


def _numbers(row: CampaignRow, config: CampaignConfig) -> range:
    if config.only is not None:
        return range(config.only[1], config.only[1] + 1)
    return range(row.trials if config.trials is None else min(row.trials, config.trials))


# --- preparation -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    """A temporary folder, in which all temporary files of this process and its children are as well."""
    folder = Path(tempfile.mkdtemp(prefix="headway-reliability-"))
    variable, before = os.environ.get("TMPDIR"), tempfile.tempdir
    temporary = folder / "tmp"
    temporary.mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
        shutil.rmtree(folder, onerror=_force)


def _force(remove: Callable[[str], object], path: str, _: object) -> None:
    """Remove what a trial left read-only."""
    with contextlib.suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
        remove(path)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped(number)

    try:
        before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _prepare(
    config: CampaignConfig, folder: Path, watcher: CampaignWatcher, stack: contextlib.ExitStack, report: CampaignReport
) -> dict[str, CampaignRow]:
    names = list(config.rows) if config.only is None else [config.only[0]]
    rows = {name: row(name) for name in ROWS if name in names}
    made: dict[str, runs.MadeRun] = {}
    if any(each.needs_runs for each in rows.values()):
        watcher.preparing("training a run of each task")
        made = _tiny_runs(config, folder, stack, report)
    place = Place(
        folder=folder,
        seed=config.seed,
        long=config.long,
        workers=config.workers,
        runs=made,
        note=report.notes.append,
    )
    for each in rows.values():
        watcher.preparing(each.name)
        each.prepare(place)
    return rows


def _tiny_runs(
    config: CampaignConfig, folder: Path, stack: contextlib.ExitStack, report: CampaignReport
) -> dict[str, runs.MadeRun]:
    """A run of each task, trained by as many processes at once as there are workers."""
    wanted = [tiny for tiny in runs.TINY.values() if config.tasks is None or tiny.task in config.tasks]
    for tiny in wanted:
        if not tiny.available:
            report.notes.append(f"no run of task {tiny.task}: {tiny.needs} is not installed")
    wanted = [tiny for tiny in wanted if tiny.available]
    for tiny in wanted:
        stack.enter_context(tiny.short())  # for the whole campaign: commands read the same data again
    home, cache = folder / "runs", folder / "cache"
    home.mkdir()
    waiting, made = list(wanted), dict[str, runs.MadeRun]()
    open_children: list[tuple[runs.TinyRun, process.Child]] = []
    while waiting or open_children:
        while waiting and len(open_children) < config.workers:
            tiny = waiting.pop(0)
            made[tiny.task] = runs.planned(tiny, home / tiny.task)
            open_children.append((tiny, process.start(_maker(tiny, home / tiny.task, cache), cpu_seconds=60)))
        tiny, child = open_children.pop(0)
        ended = child.wait(seconds=120)
        if ended.code != 0:
            raise RuntimeError(f"the run of task {tiny.task} could not be trained: {ended.err}")
    return made


def _maker(tiny: runs.TinyRun, folder: Path, cache: Path) -> Callable[[], object]:
    def make() -> None:
        runs.make(tiny, folder, cache)

    return make


# --- workers ---------------------------------------------------------------------------------------------------------


class Workers:
    """Processes that run trials; a context manager. Each leads a process group, which its children belong to."""

    def __init__(self, rows: Mapping[str, CampaignRow], config: CampaignConfig) -> None:
        self.rows, self.seed, self.count = rows, config.seed, config.workers
        self.idle: list[Connection] = []
        self.busy: dict[Connection, int] = {}  # the number of its trial
        self.pids: dict[Connection, int] = {}

    def __enter__(self) -> Self:
        for _ in range(self.count):
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in [*self.pids]:
            self._end(pipe)

    def _start(self) -> None:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setpgid(0, 0)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                for other in (ours, *self.pids):  # else a worker would not notice that the engine is gone
                    other.close()
                self._serve(theirs)
                code = 0
            finally:
                os._exit(code)
        with contextlib.suppress(OSError):  # the child may have done so already
            os.setpgid(pid, pid)
        theirs.close()
        self.pids[ours] = pid
        self.idle.append(ours)

    def _end(self, pipe: Connection) -> None:
        """End a worker with all its children, and take its memory back."""
        pid = self.pids.pop(pipe)
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        pipe.close()

    def _serve(self, pipe: Connection) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                name, number = pipe.recv()
                pipe.send(outcome_of(self.rows[name], number, self.seed))

    def hand_out(self, name: str, number: int) -> None:
        """Give a trial to an idle worker."""
        pipe = self.idle.pop()
        pipe.send((name, number))
        self.busy[pipe] = number

    def collect(self, seconds: float = 0.5) -> Iterator[tuple[int, Outcome]]:
        """Wait for outcomes, at most so long."""
        for pipe in wait(list(self.busy), seconds):
            assert isinstance(pipe, Connection)
            number = self.busy.pop(pipe)
            try:
                outcome: Outcome = pipe.recv()
                self.idle.append(pipe)
            except (EOFError, OSError):
                outcome = failed("the worker process of this trial died")
                self._end(pipe)
                self._start()
            yield number, outcome


def outcome_of(row: CampaignRow, number: int, seed: int) -> Outcome:
    """Run one trial; an exception is a failure."""
    try:
        return row.trial(number, chance_of(seed, row.name, number))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = str(error).splitlines()[0] if str(error) else ""
        return failed(f"{type(error).__name__}: {line} ({Path(where.filename).name}:{where.lineno})")
