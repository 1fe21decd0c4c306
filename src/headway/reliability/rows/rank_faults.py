"""A rank that is stopped, crashes or raises, a launcher that is killed or asked to end: nothing hangs or is left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Sequence

from headway.reliability.ranks import Before, RankedTraining, ranked_targets
from headway.reliability.row import CampaignRow, Outcome, Place, failed, ok
from headway.reliability.training import RUN, STEPS, logged_steps
from headway.training.checkpoints import Checkpoints
from headway.training.trainer import Trainer

NOTICED = 30.0  # seconds from a fault until all ranks are started again, or have ended
STOP, CRASH, RAISE, LAUNCHER, TERM = "SIGSTOP", "SIGSEGV", "an exception", "a killed launcher", "SIGTERM"
KINDS = (CRASH, LAUNCHER, TERM, RAISE, STOP)
AGAIN = (1, 2, 4)  # ranks that go on with what was ended
# What is seen of a fault that came in time, in what the launcher said, its exit code or the signal that ended it.
_SIGNS = {
    STOP: "has been stopped", CRASH: "was ended by SIGSEGV", RAISE: "ended with exit code",
    LAUNCHER: str(int(signal.SIGKILL)), TERM: str(128 + signal.SIGTERM),
}  # fmt: skip
GAVE_IN = 128 + signal.SIGTERM  # the exit code of a launcher that was asked to end


class RankFaults(CampaignRow):
    """One fault at a random time, and what is needed to go on: nothing, or the same command with `--resume`."""

    name = "rank-faults"
    what = (
        "a rank is stopped, crashes or raises, the launcher is killed or asked to end: within 30 s all go on or all "
        "are gone, and the run ends the same"
    )
    requirement = "F9"
    counted = "faults"
    trials = 50
    least = len(KINDS)
    weight = 1.0

    def prepare(self, place: Place) -> None:
        self.place = place
        if sys.platform != "linux":
            place.note("ranks are watched by /proc, which this system does not have")
            self.trials = self.least = 0
            return
        self.targets = [each for each in ranked_targets(place, place.own(self.name)) if not each.sharded]

    def trial(self, number: int, chance: random.Random) -> Outcome:
        target, kind = self.targets[number // len(KINDS) % len(self.targets)], KINDS[number % len(KINDS)]
        rank, raises_at = chance.randrange(2), chance.randrange(STEPS)
        where = f"{target.name}: {kind}"
        with self.place.scratch() as folder:
            training = target.start(folder, 2, _raising(rank, raises_at) if kind == RAISE else None)
            ranks = training.ranks()
            training.sleep(chance.uniform(0, target.seconds))
            since = time.monotonic()
            _send(kind, training, ranks, rank)
            wrong = _awaited(training, ranks, since)
            ended = training.wait()
            wrong, came = (
                wrong or training.left_behind(),
                int(_SIGNS[kind] in f"{ended.err} {ended.code} {ended.signal}"),
            )
            if wrong:
                return failed(f"{where}: {wrong}")
            if kind in (LAUNCHER, TERM):
                taken, saved = logged_steps(folder), Checkpoints(folder / RUN).steps()
                if ended.code not in (0, None, GAVE_IN) or ended.signal not in (None, signal.SIGKILL, signal.SIGTERM):
                    return failed(f"{where}: {ended}")
                if ended.code == GAVE_IN and taken and (not saved or saved[-1] != taken[-1]):
                    return failed(f"{where}: {taken[-1]} steps were taken, saved are {saved}")
                count = chance.choice(AGAIN)
                where = f"{where}, then --resume by {count}"
                training = target.start(folder, count, resume=True)
                ended = training.wait()
            wrong = ended.trouble or target.difference(folder, older=kind != TERM)
        return failed(f"{where}: {wrong}") if wrong else ok(came)


def _raising(number: int, step: int) -> Before:
    """Let a rank of the first attempt raise an error in a step, as a defect would."""

    def before(attempt: int, rank: int) -> None:
        if attempt or rank != number:
            return
        advance = Trainer.advance

        def fail(self: Trainer) -> dict[str, object]:
            if self.step == step:
                raise RuntimeError("injected")
            return advance(self)

        Trainer.advance = fail  # type: ignore[method-assign]

    return before


def _send(kind: str, training: RankedTraining, ranks: Sequence[int], rank: int) -> None:
    number = {STOP: signal.SIGSTOP, CRASH: signal.SIGSEGV, LAUNCHER: signal.SIGKILL, TERM: signal.SIGTERM}.get(kind)
    if number is None or not ranks or not training.running():
        return
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(training.child.pid if kind in (LAUNCHER, TERM) else ranks[rank], number)


def _awaited(training: RankedTraining, ranks: Sequence[int], since: float) -> str | None:
    """Wait until all ranks are started again or the launcher has ended -> what is wrong if that takes too long."""
    training.ranks(but=ranks)
    seconds = time.monotonic() - since
    return f"all went on or were gone after {seconds:.1f} s" if seconds > NOTICED else None
