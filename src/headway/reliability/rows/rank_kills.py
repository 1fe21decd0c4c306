"""kill -9 of a random rank of a training, repeatedly: all go on by themselves, and end as if it had not happened."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from headway.reliability import disks
from headway.reliability.disks import DyingDisk, die
from headway.reliability.ranks import SEEN, Before, RankedTarget, RankedTraining, ranked_targets
from headway.reliability.row import CampaignRow, Outcome, Place, failed, ok

KILLS = (1, 4)  # of one training, at least and at most
NOTICED = 5.0  # seconds from the death of a rank until the launcher knows of it
# Seconds until all others have ended and all are started again; on a machine with other work, where that is longer,
# the seconds of the whole undisturbed training.
AGAIN = 5.0
FOUR = 6  # every sixth training is done by four ranks
DIED = "died"  # files with the time at which a rank killed itself, by the number of kills that were left


@dataclass(frozen=True, slots=True)
class Kill:
    """The death of a rank: after a share of the time of a training, or at an operation of its disk."""

    rank: int
    share: float
    point: int | None


class RankKills(CampaignRow):
    """SIGKILL of a random rank at a random time, or at a random operation of its disk, without any `--resume`."""

    name = "rank-kills"
    what = (
        "kill -9 of a rank of two or four, in a step or in a save: noticed within 5 s, all go on, and end the same, "
        "bit by bit"
    )
    requirement = "F9"
    counted = "kills"
    trials = 160
    weight = 1.0

    def prepare(self, place: Place) -> None:
        self.place = place
        if sys.platform != "linux":
            place.note("ranks are watched by /proc, which this system does not have")
            self.trials = 0
            return
        self.targets = ranked_targets(place, place.own(self.name))

    def trial(self, number: int, chance: random.Random) -> Outcome:
        target = self.targets[number % len(self.targets)]
        count = 4 if number % FOUR == FOUR - 1 and not target.sharded else 2
        left = [_kill(target, count, chance) for _ in range(chance.randint(*KILLS))]
        kills, resume = 0, False
        times: dict[str, list[float]] = {"noticed": [], "started again": []}
        with self.place.scratch() as folder:
            while True:
                training = target.start(folder, count, _dying(left, folder, chance), resume=resume)
                attempts, wrong, ranks = 0, None, training.ranks()
                while ranks and wrong is None:
                    died = _wound(training, ranks, left[attempts], target) if attempts < len(left) else None
                    ranks = training.ranks(but=ranks)
                    died = died or next(iter(_times(folder / f"{DIED}-{len(left) - attempts}")), None)
                    attempts += 1
                    wrong = _judged(died, bool(ranks), folder, target, times)
                ended = training.wait()
                kills += ended.err.count("was ended by SIGKILL")
                wrong = wrong or training.left_behind()
                if wrong is None and ended.code == 128 + signal.SIGKILL and "given up after" in ended.err:
                    left, resume = left[attempts:], True  # as a user does who reads that
                    continue
                wrong = wrong or ended.trouble or target.difference(folder)
                where = f"{target.name}, {count} ranks"
                return failed(f"{where}: {wrong}", kills, times) if wrong else ok(kills, times)


def _kill(target: RankedTarget, count: int, chance: random.Random) -> Kill:
    rank, writes = chance.randrange(count), chance.random() < 0.5
    if not writes:
        return Kill(rank, chance.random(), None)
    # Rank 0 alone writes a checkpoint that is not sharded.
    return Kill(rank if target.sharded else 0, 0.0, chance.randrange(target.points // (2 if rank else 1)))


def _dying(left: Sequence[Kill], folder: Path, chance: random.Random) -> Before:
    """What each rank of each attempt does first: one whose turn it is gets a disk at which it dies."""

    def before(attempt: int, rank: int) -> None:
        kill = left[attempt] if attempt < len(left) else None
        if kill is not None and kill.point is not None and kill.rank == rank:
            told = folder / f"{DIED}-{len(left) - attempt}"
            disks.use(DyingDisk(kill.point, chance, end=partial(_die, told)))

    return before


def _die(told: Path) -> NoReturn:
    told.write_text(str(time.monotonic()))
    die()


def _wound(training: RankedTraining, ranks: Sequence[int], kill: Kill, target: RankedTarget) -> float | None:
    """Kill a rank after a while -> when; None for one that kills itself."""
    if kill.point is not None:
        return None
    training.sleep(kill.share * target.seconds)
    now = time.monotonic()
    with contextlib.suppress(ProcessLookupError):
        os.kill(ranks[kill.rank], signal.SIGKILL)
    return now


def _judged(
    died: float | None, again: bool, folder: Path, target: RankedTarget, times: dict[str, list[float]]
) -> str | None:
    """Once all are started `again`, or the launcher has ended: what took too long, of what is added to `times`."""
    now = time.monotonic()
    if died is None:
        return "all ranks were started again though none was killed" if again else None
    noticed = next((each for each in _times(folder / SEEN) if each >= died), None)
    if noticed is None:  # it had ended before
        return "all ranks were started again, for which the launcher had no reason" if again else None
    times["noticed"].append(noticed - died)
    if noticed - died > NOTICED:
        return f"noticed after {noticed - died:.1f} s"
    if again:
        times["started again"].append(now - died)
        if now - died > max(AGAIN, target.seconds):
            return f"started again after {now - died:.1f} s"
    return None


def _times(file: Path) -> list[float]:
    """The times in a file; none where it is missing, or torn by the death of its writer."""
    with contextlib.suppress(OSError, ValueError):
        return [float(line) for line in file.read_text().splitlines()]
    return []
