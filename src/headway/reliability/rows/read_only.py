"""Every reading command on a run folder that is read-only."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable
from errno import EROFS
from functools import partial
from pathlib import Path

from headway.reliability import disks, mounts
from headway.reliability.disks import FailingDisk
from headway.reliability.process import Ended, run_command
from headway.reliability.row import CampaignRow, Outcome, Place, failed, noticed, ok
from headway.reliability.runs import PRECISION, MadeRun
from headway.training.checkpoints import Checkpoints

RUN, OUT = Path("run"), Path("out")


class ReadOnly(CampaignRow):
    """Each command that reads a run of each task: as intact as it is, and with its newest checkpoint damaged."""

    name = "read-only"
    what = "every reading command works on a run folder that cannot be written to, and changes nothing"
    requirement = "F4"
    counted = "commands"
    exhaustive = True
    least = 8
    weight = 1.5

    def prepare(self, place: Place) -> None:
        self.place = place
        empty = place.own(self.name) / "empty"
        empty.mkdir()
        self.protect: Callable[[Path], None] = _mount
        if reason := mounts.reason_against(empty):
            self.protect = _refuse if os.geteuid() == 0 else _forbid
            place.note(f"no run was mounted read-only: not permitted here ({reason}); its files were protected instead")
        self.cases = [
            (task, verb, precision, damaged)
            for task, made in place.runs.items()
            for verb in made.can
            for precision in (None, *(("int8",) if verb in PRECISION else ()))
            for damaged in (False, True)
            if not (damaged and verb == "info")  # reads no checkpoint
        ]
        random.Random(place.seed).shuffle(self.cases)
        self.trials = len(self.cases)

    def trial(self, number: int, chance: random.Random) -> Outcome:
        task, verb, precision, damaged = self.cases[number % len(self.cases)]
        made = self.place.runs[task]
        where = f"{verb}{f' --precision {precision}' if precision else ''} on a run of task {task}"
        with self.place.scratch() as folder:
            clean, out = self._run(made, verb, precision, folder / "clean", None)
            if clean.trouble:
                return failed(f"{where}, writable and intact: {clean.trouble}")
            home = folder / "protected"
            before = _copy(made, home)
            if damaged:
                before = _damage(home / RUN, chance)
            found, found_out = self._run(made, verb, precision, home, partial(self.protect, home / RUN))
            if found.problem:
                return failed(f"{where}: {found.problem}")
            if _digests(home / RUN) != before:
                return failed(f"{where}: the run folder was changed")
            if damaged:
                wrong = _wrong_with_fallback(found, clean, Checkpoints(home / RUN).steps())
                return failed(f"{where}, newest checkpoint damaged: {wrong}") if wrong else noticed()
            same = (found.code, found.stdout, found_out) == (clean.code, clean.stdout, out)
        return ok() if same else failed(f"{where}: another answer than on a writable folder: {found}")

    def _run(
        self, made: MadeRun, verb: str, precision: str | None, home: Path, before: Callable[[], None] | None
    ) -> tuple[Ended, dict[str, str]]:
        """Run a command on a copy of a run; how it ended, and what it wrote elsewhere."""
        if not home.exists():
            _copy(made, home)
        words = made.command(verb, OUT, RUN) + (["--precision", precision] if precision else [])
        return run_command(words, cwd=home, before=before), _digests(home / OUT)


def _wrong_with_fallback(found: Ended, clean: Ended, steps: list[int]) -> str | None:
    """What is wrong with the answer of a command whose newest checkpoint is damaged: it should use the one before."""
    if len(steps) == 1:
        return None if found.code == 4 else f"no checkpoint is left, expected exit code 4: {found}"
    if found.code != 0:
        return f"an older one is intact: {found}"
    silent = found.stdout != clean.stdout and not found.stderr.strip()
    return "another answer, and nothing on stderr" if silent else None


def _copy(made: MadeRun, home: Path) -> dict[str, str]:
    home.mkdir()
    shutil.copytree(made.folder, home / RUN)
    return _digests(home / RUN)


def _damage(run: Path, chance: random.Random) -> dict[str, str]:
    """Flip a bit of the weights of the newest checkpoint."""
    path = Checkpoints(run).path(Checkpoints(run).steps()[-1]) / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return _digests(run)


def _digests(folder: Path) -> dict[str, str]:
    """Name and content of every file, or of the one file."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in files
    }


def _mount(folder: Path) -> None:
    mounts.unshare()
    mounts.make_read_only(folder)


def _forbid(folder: Path) -> None:
    """For a user who is not root: take the permission to write away."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)


def _refuse(folder: Path) -> None:
    """For root without the right to mount: a disk that refuses to write."""
    disks.use(FailingDisk(0, OSError(EROFS, os.strerror(EROFS))))
