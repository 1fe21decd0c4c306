"""A disk that is full, broken or read-only, at every single operation of a training, and a real one that fills up."""

from __future__ import annotations

import errno
import json
import os
import random
from functools import partial
from pathlib import Path

from headway.documents import parse_json
from headway.reliability import disks, mounts
from headway.reliability.disks import FailingDisk
from headway.reliability.process import Ended, start
from headway.reliability.row import CampaignRow, Outcome, Place, failed, noticed, ok
from headway.reliability.training import RUN, Training, difference, targets
from headway.storage.manifest import problems
from headway.training.checkpoints import Checkpoints

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
SIZES = 64  # of a real disk, from none to room for two further checkpoints
SETTINGS = {"train.steps": 4, "train.save_every": 2, "train.evaluate_every": 2, "train.keep": 3}


class FullDisk(CampaignRow):
    """A training on a disk that fails; its checkpoints stay sound, and with a good disk it goes on."""

    name = "full-disk"
    what = "the disk is full or fails at any operation: one line, and earlier checkpoints stay sound"
    requirement = "F4"
    counted = "faults"
    exhaustive = True
    least = 8
    weight = 2.0

    def prepare(self, place: Place) -> None:
        self.place, home = place, place.own(self.name)
        tiny = next(made.tiny for made in place.runs.values() if made.tiny.trained)
        (self.target,) = targets([Training.of(tiny, home, SETTINGS)], home, 1)
        cases: list[tuple[int, int]] = [(point, number) for point in range(self.target.points) for number in ERRORS]
        empty = home / "empty"
        empty.mkdir()
        if reason := mounts.reason_against(empty):
            place.note(f"no real disk was filled: a small file system cannot be mounted here ({reason})")
        else:
            cases += [(size, 0) for size in range(SIZES)]
        random.Random(place.seed).shuffle(cases)
        self.cases, self.trials = cases, len(cases)

    def trial(self, number: int, chance: random.Random) -> Outcome:
        which, code = self.cases[number % len(self.cases)]
        with self.place.scratch() as folder:
            return self._error(folder, which, code, chance) if code else self._real_disk(folder, which)

    def _error(self, folder: Path, point: int, code: int, chance: random.Random) -> Outcome:
        where = f"{errno.errorcode[code]} at point {point} of {self.target.points}"
        once = chance.random() < 0.5  # the others last: a full disk does not get emptier by itself
        before = partial(disks.use, FailingDisk(point, OSError(code, os.strerror(code)), once=once))
        ended = self.target.training.start(folder, before=before, command=True).wait(seconds=120)
        wrong = self._judge(ended, folder)
        if not wrong:
            ended = self.target.training.start(folder, resume=True).wait(seconds=120)
            wrong = ended.trouble or difference(self.target.state, folder)
        return failed(f"{where}: {wrong}") if wrong else noticed()

    def _judge(self, ended: Ended, folder: Path) -> str | None:
        """What is wrong with a training whose disk failed."""
        if ended.problem:
            return ended.problem
        if ended.code not in (0, 5):
            return f"expected exit code 5: {ended}"
        told = [line for line in ended.err.splitlines() if line.startswith("headway: ")]
        if ended.code == 5 and len(told) != 1:
            return f"expected one line that says what failed, got {len(told)}"
        checkpoints = Checkpoints(folder / RUN)
        for step in checkpoints.steps():
            if damage := problems(checkpoints.path(step)):
                return f"the checkpoint of step {step} is damaged: {'; '.join(damage)}"
        return None

    def _real_disk(self, folder: Path, size: int) -> Outcome:
        """The training on a file system in memory, which is mounted by a child for itself alone."""
        told = start(partial(self._on_small_disk, folder, size), cpu_seconds=120).wait(seconds=240)
        where = f"a disk of size {size} of {SIZES}"
        if told.code != 0:
            return failed(f"{where}: {told}")
        wrong, full = parse_json(told.out, "the result of a trial")
        return failed(f"{where}: {wrong}") if wrong else noticed() if full else ok()

    def _on_small_disk(self, folder: Path, size: int) -> None:
        """In a child: mount, train until the disk is full, make it larger, resume; print what is wrong as JSON."""
        mounts.unshare()
        disk = folder / "disk"
        disk.mkdir()
        needed = sum(path.stat().st_size for path in self.target.home.rglob("*") if path.is_file())
        mounts.mount_memory(disk, 2**26)
        page = os.sysconf("SC_PAGE_SIZE")
        mounts.resize(disk, max(page, 2 * needed * size // SIZES // page * page))
        ended = self.target.training.start(disk, command=True).wait(seconds=120)
        wrong, full = self._judge(ended, disk), ended.code != 0
        if not wrong:
            mounts.resize(disk, 2**26)
            ended = self.target.training.start(disk, resume=True).wait(seconds=120)
            wrong = ended.trouble or difference(self.target.state, disk)
        print(json.dumps([wrong, full]))
