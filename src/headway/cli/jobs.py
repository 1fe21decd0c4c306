"""A command over a large file: a worker of a job, its progress, and the joining of its results (docs/jobs.md)."""

from __future__ import annotations

import contextlib
import ctypes
import json
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, Progress, TextColumn

import headway
from headway.cli.console import SafeConsole
from headway.cli.lines import blocks
from headway.cli.outputs import STDOUT, expect_folder
from headway.cli.progress import EVERY, progress_lines
from headway.cli.terminal import tell
from headway.counts import counted
from headway.decoding.non_finite import numbered
from headway.documents import parse_json
from headway.errors import ConfigError, DataError
from headway.runs import Run
from headway.runs.jobs import LEASES, JobFolder, UnitOutput, open_job, run_facts
from headway.storage.leases import Leases
from headway.storage.targets import expect_output
from headway.tasks.base import ignore
from headway.training.quantities import duration

Answer = Callable[[Sequence[str], int], Any]  # of a block of lines, and how many lines of the file are before it
TRIMMED = 16  # blocks of lines after which freed memory is given back
# Options that say where and how a worker runs, or stand in the facts of the run as what they mean for it.
NOT_SETTINGS = (
    "run", "device", "precision", "average", "adapter", "ensemble", "debug", "json", "overrides",
    "input_file", "out", "unit", "shard", "lease", "join",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork:
    """What a command does with the lines of a job: the runs that take part, and what they make of a block of lines."""

    runs: Sequence[Run]
    answer: Answer
    lines_at_once: int
    ended: Callable[[], None] = ignore


def run_job(arguments: Namespace, output: UnitOutput, prepare: Callable[[], JobWork]) -> None:
    """Be one of any number of workers of a job, or join its results. `prepare` loads what a worker needs.

    Raises ConfigError for a folder with another job, and the first DataError of a unit after all others are done.
    """
    expect_folder(arguments.out)
    if arguments.join is None:
        _work(arguments, output, prepare())
        return
    if arguments.join == STDOUT:
        raise ConfigError("--join -: name a file, which appears when all units were found to be intact")
    expect_output(Path(arguments.join))
    job = _open(arguments, output, _settings(arguments), partly=True)
    size = job.join(Path(arguments.join), progress_lines())
    if arguments.json:
        print(json.dumps({"units": len(job.units), "lines": job.units.lines, "bytes": size, "file": arguments.join}))
    tell(f"{counted(len(job.units), 'unit')}, {counted(job.units.lines, 'line')} in {arguments.join}")


def note(text: str) -> None:
    """A line on stderr; a bar lets it pass above itself."""
    tell(f"note: {text}")


def _work(arguments: Namespace, output: UnitOutput, work: JobWork) -> None:
    settings = _settings(arguments)
    for number, run in enumerate(work.runs, 1):
        which = "" if number == 1 else f"run {number}: "
        settings |= {f"{which}{name}": value for name, value in run_facts(run).items()}
    job = _open(arguments, output, {**settings, "headway": headway.__version__, "torch": torch.__version__})
    _compute_alike(job)
    first, every = arguments.shard or (0, 1)
    failed: dict[int, DataError] = {}
    leases = Leases(job.folder / LEASES, arguments.lease)
    with JobProgress(job) as progress:
        for number in job.take(leases, range(first, len(job.units), every), failed, progress.waiting):
            try:
                job.commit(number, _results(job, number, work, progress))
            except DataError as error:  # the other units do not depend on this one
                failed[number] = error
                note(f"{job.units.described(number)} has no result: {error}")
            progress.finished(failed=number in failed)
        facts = progress.summary()
    if facts["done"] == facts["units"]:
        leases.remove_abandoned()
    work.ended()
    if arguments.json:
        print(json.dumps({**facts, "failed": sorted(failed)}))
    if failed:
        more = f" (and {counted(len(failed) - 1, 'unit')} more without result)" if len(failed) > 1 else ""
        first_error = next(iter(failed.values()))
        raise DataError(f"{first_error}{more}") from first_error
    if facts["done"] == facts["units"]:
        tell(f"all {counted(facts['units'], 'unit')} are in {job.folder}; the same command with --join FILE joins them")


def _open(arguments: Namespace, output: UnitOutput, settings: Mapping[str, Any], *, partly: bool = False) -> JobFolder:
    return open_job(
        Path(arguments.out),
        Path(arguments.input_file),
        unit=arguments.unit,
        settings=settings,
        output=output,
        begun_with={"threads": torch.get_num_threads(), "processor": torch.backends.cpu.get_cpu_capability()},
        progress=progress_lines(),
        partly=partly,
    )


def _results(job: JobFolder, number: int, work: JobWork, progress: JobProgress) -> Iterator[Any]:
    """The results of a unit's lines, block by block: the same blocks in each worker."""
    before = job.units.first(number) - 1
    for done, block in enumerate(blocks(job.units.read(job.input, number), work.lines_at_once), start=1):
        with numbered(range(before, before + len(block))):
            found = work.answer(block, before)
        yield found
        before += len(block)
        progress.advance(len(block))
        if done % TRIMMED == 0:
            _return_memory()
    _return_memory()


def _return_memory() -> None:
    """Give freed memory back to the system: glibc keeps what batches of changing shapes leave between other blocks."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library, another system
        ctypes.CDLL(None).malloc_trim(0)


def _settings(arguments: Namespace) -> dict[str, Any]:
    """The options that decide the results, under the names that they have on the command line."""
    found = {name: value for name, value in vars(arguments).items() if name not in NOT_SETTINGS}
    named = {name if name == "command" else f"--{name.replace('_', '-')}": value for name, value in found.items()}
    return {
        name: parse_json(json.dumps(value), name) for name, value in named.items() if value not in (None, [], "", False)
    }


def _compute_alike(job: JobFolder) -> None:
    """Use as many threads as the worker that began the job: they decide how sums are divided, hence the last digits."""
    begun = job.facts["begun_with"]
    if begun["threads"] != torch.get_num_threads():
        tell(f"note: computing with {counted(begun['threads'], 'thread')}, as the worker that began the job")
        torch.set_num_threads(begun["threads"])
    own = torch.backends.cpu.get_cpu_capability()
    if begun["processor"] != own:
        tell(f"note: this processor has {own}, that of the job's first worker {begun['processor']}: results may differ")


class JobProgress:
    """Units done, lines a second and the time left: a bar at a terminal, else a line now and then."""

    def __init__(self, job: JobFolder) -> None:
        self.job, self.console = job, SafeConsole(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[said]}"),
        )  # fmt: skip
        self.bar = Progress(
            *columns,
            console=self.console,
            transient=True,
            redirect_stdout=False,
            disable=not self.console.is_interactive,
        )
        self.task = self.bar.add_task("units", total=len(job.units) or 1, said="")
        self.started = self.told = time.perf_counter()
        self.before = self.done = len(job.done())
        self.own = self.lines = self.part = 0  # units and lines of this worker, and lines of its present unit

    def __enter__(self) -> JobProgress:
        self.bar.start()
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def advance(self, lines: int) -> None:
        """Count lines of the present unit."""
        self.lines, self.part = self.lines + lines, self.part + lines
        self._show()

    def finished(self, *, failed: bool) -> None:
        """Count a unit of this worker."""
        self.part, self.own = 0, self.own + (not failed)
        self.done = len(self.job.done())
        self._show()

    def waiting(self, left: Sequence[int]) -> None:
        """While other workers have all units that are left."""
        self.done = len(self.job.done())
        self._show(
            f"; waiting for {counted(len(left), 'unit')} of other workers, {self.job.units.described(left[0])} first"
        )

    def summary(self) -> dict[str, Any]:
        """What this worker did, and how far the job is."""
        seconds = time.perf_counter() - self.started
        return {
            "units": len(self.job.units),
            "done": len(self.job.done()),
            "own_units": self.own,
            "own_lines": self.lines,
            "seconds": round(seconds, 3),
            "lines_per_second": round(self.lines / seconds, 3) if seconds else 0.0,
        }

    def _show(self, more: str = "") -> None:
        now = time.perf_counter()
        seconds, unit = now - self.started, self.job.units.unit
        fresh = min((self.done - self.before) * unit + self.part, self.job.units.lines)  # of all workers
        speed = fresh / seconds if seconds else 0.0
        left = max(self.job.units.lines - self.done * unit - self.part, 0)
        said = f"{self.done:,}/{len(self.job.units):,} units"
        if speed:
            said += f", {speed:,.0f} lines/s, about {duration(left / speed)} left"
        self.bar.update(self.task, completed=self.done, said=f"{said}{more}")
        if self.bar.disable and now - self.told >= EVERY:
            self.told = now
            tell(f"{said}{more}")
