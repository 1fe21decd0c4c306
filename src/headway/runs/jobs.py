"""A job over a large file of lines: a folder in which any number of workers commit the results of its units.

    DIR/job/            what the job is: its input, its settings, and where each unit begins; written once
    DIR/units/000017/   the result of a unit, renamed into place with the checksum of its content
    DIR/leases/000017   which worker is at a unit (headway.storage.leases)

Workers share nothing else. The result of a unit depends on the unit and the settings alone, so it does not matter which
worker computes it, or whether two do: the first result that is committed stays.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway import config as configs
from headway.counts import counted
from headway.data.line_files import DIGEST, LineUnits, scan_lines
from headway.data.token_store import fingerprint
from headway.documents import read_json
from headway.errors import ConfigError, DataError, StorageError, shown
from headway.interop.adapter import adapter_digest
from headway.storage import disk
from headway.storage.commit import commit_folder, commit_stream, remove_stale_drafts
from headway.storage.leases import Leases
from headway.storage.manifest import DamagedError, problems, read_manifest
from headway.storage.targets import DRAFT, storage_errors
from headway.training.checkpoints import Checkpoints

if TYPE_CHECKING:
    from headway.runs.run import Run

JOB, UNITS, LEASES = "job", "units", "leases"
FACTS, OFFSETS, DIGESTS = "job.json", "offsets.i64", "digests.u8"
FORMAT = 1
MAX_UNITS = 100_000  # folders in one folder, which every worker lists
DIGITS = 6
CHUNK = 1 << 20
MAX_PAUSE = 5.0  # seconds between two looks at units that others have

Progress = Callable[[str, int, int], None]


def run_facts(run: Run) -> dict[str, str]:
    """What decides the answers of a run: weights, adapter, model, task, tokenizers, precision, kind of device."""
    sections = [repr(configs.plain(section)) for section in (run.config.model, run.config.task)]
    tokenizers = [f"{name} {run.tokenizers[name].content_hash}" for name in sorted(run.tokenizers)]
    facts = {
        "weights of the run": Checkpoints(run.folder).key_of(list(run.steps))[:16],
        "model and tokenizers of the run": fingerprint([*sections, *tokenizers])[:16],
        "--adapter": "" if run.adapter is None else adapter_digest(run.adapter)[:16],
        "precision": run.precision,
        "device": run.device.type,
    }
    return {name: value for name, value in facts.items() if value}


class UnitOutput(Protocol):
    """The form of a job's results: how the results of lines become a file, and files of units one file."""

    file: str

    def pieces(self, results: Iterable[Any], lines: int) -> Iterator[bytes]:
        """The content of a unit's file, from the results of blocks of its lines, one after the other."""
        ...

    def joined(self, files: Sequence[Iterator[bytes]], lines: int) -> Iterator[bytes]:
        """The content of one file, from those of all units."""
        ...


class TextOutput:
    """A text for each line, ended by a newline; blocks are lists of texts."""

    file = "out.txt"

    def pieces(self, results: Iterable[Sequence[str]], lines: int) -> Iterator[bytes]:
        """The texts in their order."""
        for block in results:
            yield "".join(f"{text}\n" for text in block).encode()

    def joined(self, files: Sequence[Iterator[bytes]], lines: int) -> Iterator[bytes]:
        """One file after the other."""
        for chunks in files:
            yield from chunks


class VectorOutput:
    """A row of an array for each line, as a .npy file; blocks are arrays (N, D)."""

    file = "out.npy"

    def pieces(self, results: Iterable[NDArray[np.float32]], lines: int) -> Iterator[bytes]:
        """The header for all lines of the unit, then the rows."""
        begun = False
        for block in results:
            rows = np.ascontiguousarray(block)
            if not begun:
                yield _header(lines, rows.shape[1], rows.dtype)
                begun = True
            yield rows.tobytes()

    def joined(self, files: Sequence[Iterator[bytes]], lines: int) -> Iterator[bytes]:
        """One header for all lines, then the rows of each file."""
        if not files:
            yield _header(0, 0, np.dtype(np.float32))
        for number, chunks in enumerate(files):
            first = io.BytesIO(next(chunks))
            np.lib.format.read_magic(first)
            (_, width), _, dtype = np.lib.format.read_array_header_1_0(first)
            if number == 0:
                yield _header(lines, width, dtype)
            yield first.read()
            yield from chunks


def _header(rows: int, width: int, dtype: np.dtype[Any]) -> bytes:
    file = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(file, described)
    return file.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFolder:
    """A job's folder, as one worker sees it."""

    folder: Path
    input: Path
    units: LineUnits
    facts: Mapping[str, Any]  # of its input, its settings, and the worker that began it
    output: UnitOutput

    def done(self) -> set[int]:
        """The units that have a result. Raises StorageError."""
        with storage_errors(self.folder / UNITS, doing="read"):
            found = os.listdir(self.folder / UNITS) if (self.folder / UNITS).is_dir() else []
        return {int(name) for name in found if name.isdecimal()}

    def path(self, number: int) -> Path:
        """The result of a unit."""
        return self.folder / UNITS / _name(number)

    def commit(self, number: int, results: Iterable[Any]) -> None:
        """Write the result of a unit, unless another worker has done so by now. Raises StorageError."""
        lines = self.units.count(number)
        try:
            with commit_folder(self.path(number), shared=True, facts={"unit": number, "lines": lines}) as staged:
                staged.pieces(self.output.file, self.output.pieces(results, lines))
        except StorageError:
            if not self.path(number).is_dir():  # else the worker that took the unit over has removed this draft
                raise

    def take(
        self, leases: Leases, wanted: range, skipped: Collection[int], waiting: Callable[[Sequence[int]], None]
    ) -> Iterator[int]:
        """Units of `wanted` without result, each held by a lease until the next is asked for.

        Ends when all of them have a result, apart from those `skipped`, which may grow meanwhile. While only units are
        left that other workers have, `waiting` is called with them now and then. Raises StorageError.
        """
        while True:
            done = self.done()
            left = [number for number in wanted if number not in done and number not in skipped]
            if not left:
                return
            for number in left:
                lease = leases.take(_name(number))
                if lease is not None:
                    break
            else:
                waiting(left)
                time.sleep(min(MAX_PAUSE, leases.seconds / 4))
                continue
            with lease:
                if not self.path(number).is_dir():  # else it was committed since they were listed
                    yield number

    def join(self, path: Path, progress: Progress) -> int:
        """Write the results of all units into one file -> its bytes.

        Raises DataError naming the first unit that is missing or damaged; the file is then as it was before.
        """
        done = self.done()
        missing = [number for number in range(len(self.units)) if number not in done]
        if missing:
            all_units = counted(len(self.units), "unit")
            raise DataError(
                f"{self.folder}: {self.units.described(missing[0])} has no result; {len(missing):,} of {all_units} are "
                "missing, and the same command without --join computes them"
            )
        size, counts = 0, range(len(self.units))
        with commit_stream(path) as file:
            for chunk in self.output.joined([self._checked(number, progress) for number in counts], self.units.lines):
                file.append(chunk)
                size += len(chunk)
        remove_stale_drafts(self.folder / UNITS)
        return size

    def _checked(self, number: int, progress: Progress) -> Iterator[bytes]:
        """The content of a unit's file. Raises DataError if it is not what was committed."""
        folder, name = self.path(number), self.output.file
        try:
            wrong = problems(folder)
            if wrong:
                raise DamagedError(wrong[0])
            if dict(read_manifest(folder).facts) != {"unit": number, "lines": self.units.count(number)}:
                raise DamagedError("it is the result of another unit")
            with (folder / name).open("rb", buffering=0) as file:
                while chunk := file.read(CHUNK):
                    yield chunk
        except (DamagedError, OSError) as error:
            raise DataError(
                f"{folder}: the result of {self.units.described(number)} is damaged ({error}); remove this folder, and "
                "the same command without --join computes it again"
            ) from error
        progress("units joined", number + 1, len(self.units))


def open_job(
    folder: Path,
    input: Path,
    *,
    unit: int,
    settings: Mapping[str, Any],
    output: UnitOutput,
    begun_with: Mapping[str, Any],
    progress: Progress,
    partly: bool = False,
) -> JobFolder:
    """The job in a folder, begun if there is none, and checked to be the one that these settings and this input mean.

    With `partly`, only the settings that are given are compared, and a job is not begun. Raises ConfigError naming what
    differs, or if the folder has something else in it; DataError for an input with a line that cannot be read.
    """
    if not (folder / JOB).is_dir():
        _expect_empty(folder, partly=partly)
        units = scan_lines(input, unit, progress)
        if len(units) > MAX_UNITS:
            least = -(-units.lines // MAX_UNITS)
            raise ConfigError(
                f"--unit {unit} cuts {counted(units.lines, 'line')} into {len(units):,} units, allowed: up to "
                f"{MAX_UNITS:,}; pass --unit {least} or more"
            )
        status = input.stat()
        facts = {
            "format": FORMAT,
            "input": {"bytes": int(units.offsets[-1]), "lines": units.lines, "digest": units.digest},
            "modified": status.st_mtime_ns,
            "unit": unit,
            "settings": dict(settings),
            "begun_with": dict(begun_with),
        }
        with storage_errors(folder):
            disk.DISK.make_parents(folder / UNITS)
        with commit_folder(folder / JOB, shared=True) as staged:
            staged.json(FACTS, facts)
            staged.write(OFFSETS, units.offsets.tofile)
            staged.write(DIGESTS, units.digests.tofile)
    job = _read(folder, input, output)
    _compare(job, unit, settings, partly=partly, progress=progress)
    return job


def _expect_empty(folder: Path, *, partly: bool) -> None:
    """Raise ConfigError for a folder that has anything in it: a job is begun in one of its own."""
    there = [name for name in os.listdir(folder) if not name.startswith(DRAFT)] if folder.is_dir() else []
    if os.path.lexists(folder) and not folder.is_dir():
        raise ConfigError(f"--out {folder} is not a folder; name a folder for the job")
    if [name for name in there if name != UNITS]:
        raise ConfigError(f"--out {folder} has {shown(sorted(there)[0])} in it and no job; name a folder of its own")
    if partly:
        raise ConfigError(f"--out {folder} has no job; the same command without --join begins one")


def _read(folder: Path, input: Path, output: UnitOutput) -> JobFolder:
    found = problems(folder / JOB)
    if found:
        raise DataError(f"{folder / JOB}: {found[0]}; restore it from a copy, or begin the job in another folder")
    facts = read_json(folder / JOB / FACTS)
    if facts.get("format") != FORMAT:
        raise ConfigError(
            f"{folder}: a job in format {shown(facts.get('format'))}, expected {FORMAT}; use another --out"
        )
    offsets = np.fromfile(folder / JOB / OFFSETS, np.int64)
    digests = np.fromfile(folder / JOB / DIGESTS, np.uint8).reshape(-1, DIGEST)
    units = LineUnits(lines=facts["input"]["lines"], unit=facts["unit"], offsets=offsets, digests=digests)
    return JobFolder(folder=folder, input=input, units=units, facts=facts, output=output)


def _compare(job: JobFolder, unit: int, settings: Mapping[str, Any], *, partly: bool, progress: Progress) -> None:
    """Raise ConfigError for a job of other settings or another input."""
    before = {"--unit": job.units.unit, **job.facts["settings"]}
    now = {"--unit": unit, **settings}
    names = [name for name in (now if partly else before | now) if before.get(name) != now.get(name)]
    if names:
        told = "; ".join(f"{name}: {_said(before.get(name))} there, {_said(now.get(name))} now" for name in names)
        raise ConfigError(
            f"{job.folder} has a job of other settings ({told}); repeat its settings, or use another --out"
        )
    try:
        status = job.input.stat()
    except OSError as error:
        raise DataError(f"{job.input}: could not be read ({error.strerror})") from error
    size = job.facts["input"]["bytes"]
    if status.st_size != size:
        raise ConfigError(
            f"{job.folder} has a job of another input ({size:,} bytes, {job.input} has {status.st_size:,}); "
            "pass the same input, or use another --out"
        )
    # A copy on another machine has its own time: it is read once to see that it is the same.
    if status.st_mtime_ns != job.facts["modified"] and (
        scan_lines(job.input, unit, progress).digest != job.units.digest
    ):
        raise ConfigError(
            f"{job.folder} has a job of another input (as long as {job.input}, with other content); pass the same "
            "input, or use another --out"
        )


def _said(value: Any) -> str:
    return "nothing" if value is None else shown(value, 40)


def _name(number: int) -> str:
    return f"{number:0{DIGITS}d}"
