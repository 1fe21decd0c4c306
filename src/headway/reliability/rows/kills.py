"""kill -9 during training, repeatedly: after --resume the run ends as an uninterrupted one does."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import time
from functools import partial
from pathlib import Path

from headway.reliability import disks
from headway.reliability.disks import DyingDisk
from headway.reliability.process import Child
from headway.reliability.row import CampaignRow, Outcome, Place, failed, ok
from headway.reliability.training import CACHE, RUN, Training, difference, lost_work, targets, variants

KILLS = (3, 8)  # of one training, at least and at most
COMMANDS = 10  # every tenth training is done by the command, the others by the function that it calls
COLD = 100  # every hundredth starts cold, as a check that forking hides nothing
START = 60.0  # seconds in which a cold start must come as far as the run folder


class Kills(CampaignRow):
    """SIGKILL at a random time, or at a random operation of the disk, then `--resume`, until the training is done."""

    name = "kills"
    what = "kill -9 at any time in training: after --resume the run ends the same, bit by bit"
    requirement = "F1"
    counted = "kills"
    trials = 800
    weight = 3.0

    def prepare(self, place: Place) -> None:
        self.place, home = place, place.own(self.name)
        trained = [made.tiny for made in place.runs.values() if made.tiny.trained]
        trainings = [Training.of(tiny, home, each) for tiny in trained for each in variants(tiny)]
        self.targets = targets(trainings, home, place.workers)

    def trial(self, number: int, chance: random.Random) -> Outcome:
        cold = number % COLD == COLD - 1
        # The data of the other tasks is cut short within this process; a new Python would not know of it.
        targets = [each for each in self.targets if not (cold and each.training.tiny.shortened)]
        if not targets:
            return ok(0)
        target, command = targets[number % len(targets)], number % COMMANDS == 0
        task, kills, planned = target.training.tiny.task, 0, chance.randint(*KILLS)
        with self.place.scratch() as folder:
            if chance.random() < 0.5 and (target.home / CACHE).exists():  # else the data is prepared anew
                shutil.copytree(target.home / CACHE, folder / CACHE)
            for attempt in range(planned + 1):
                resume, last = attempt > 0, attempt == planned
                at_point = chance.random() < 0.5 and not cold and not last
                disk = DyingDisk(chance.randrange(target.points // (attempt + 1) + 1), chance)
                before = partial(disks.use, disk) if at_point else None
                child = target.training.start(folder, resume=resume, before=before, command=command, cold=cold)
                if not at_point and not last:
                    if cold:
                        _wait_for_lock(folder / RUN, child)
                    time.sleep(chance.uniform(0, target.seconds / (attempt / 2 + 1)))
                    child.send(signal.SIGKILL)
                ended = child.wait(seconds=120)
                if ended.signal == signal.SIGKILL and not ended.hung:
                    kills += 1
                    if lost := lost_work(folder):
                        return failed(f"{task}: after kill {kills}: {lost}", kills)
                elif ended.trouble:
                    return failed(f"{task}: after {kills} kills: {ended.trouble}", kills)
                else:
                    break
            wrong = difference(target.state, folder)
        return failed(f"{task}: after {kills} kills: {wrong}", kills) if wrong else ok(kills)


def _wait_for_lock(run: Path, child: Child) -> None:
    """Wait until the process has locked its run: in the seconds of importing torch there is nothing to kill."""
    until = time.monotonic() + START
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            if int((run / ".lock").read_text()) == child.pid:
                return
        time.sleep(0.01)
