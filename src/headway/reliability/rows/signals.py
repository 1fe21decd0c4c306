"""SIGTERM, SIGINT and SIGHUP during training: a checkpoint is saved, and the run goes on from there."""

from __future__ import annotations

import random
import re
import signal
import time

from headway.reliability.process import Ended
from headway.reliability.row import CampaignRow, Outcome, Place, failed, ok
from headway.reliability.training import RUN, Training, difference, logged_steps, targets, variants
from headway.training.checkpoints import Checkpoints

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SAVED = re.compile(r"saved at step (\d+)")


class TrainingSignals(CampaignRow):
    """A signal at a random time of `headway train`, sometimes two, then `--resume`."""

    name = "signals"
    what = "SIGTERM, Ctrl-C or a closed terminal in training: saved, and after --resume the run ends the same"
    requirement = "F10"
    counted = "signals"
    trials = 240
    weight = 1.0

    def prepare(self, place: Place) -> None:
        self.place, home = place, place.own(self.name)
        trained = [made.tiny for made in place.runs.values() if made.tiny.trained]
        self.targets = targets([Training.of(tiny, home, variants(tiny)[-1]) for tiny in trained], home, place.workers)

    def trial(self, number: int, chance: random.Random) -> Outcome:
        target = self.targets[number % len(self.targets)]
        kind = chance.choice(NUMBERS)
        twice = chance.random() < 0.2
        with self.place.scratch() as folder:
            child = target.training.start(folder, command=True)
            time.sleep(chance.uniform(0, 1.5 * target.seconds))
            child.send(kind)
            if twice:
                time.sleep(chance.uniform(0, 0.05))
                child.send(kind)
            ended = child.wait(seconds=120)
            where = f"{target.training.tiny.task}: {kind.name}{' twice' if twice else ''}"
            wrong = self._judge(ended, kind, twice, logged_steps(folder), Checkpoints(folder / RUN).steps())
            if wrong:
                return failed(f"{where}: {wrong}")
            ended = target.training.start(folder, resume=True).wait(seconds=120)
            wrong = ended.trouble or difference(target.state, folder, older=False)
        return failed(f"{where}, then --resume: {wrong}") if wrong else ok()

    def _judge(self, ended: Ended, kind: signal.Signals, twice: bool, taken: list[int], saved: list[int]) -> str | None:
        """What is wrong with how the training ended; the steps in its log and those of its checkpoints."""
        if ended.code == 0 or ended.hung or "Traceback" in ended.err:
            return ended.problem  # with 0 it was done before the signal came
        told = SAVED.search(ended.err)
        if told and (not saved or saved[-1] != int(told[1]) or taken[-1] != saved[-1]):
            return f"said {told[0]}; the log ends at step {max(taken, default=0)}, the checkpoints at {saved}"
        if not taken or (saved and saved[-1] >= taken[-1]):
            # Before the first step and after the last one there is nothing to save: the signal may end the process.
            return None if ended.signal == kind or ended.code == 128 + kind else f"expected {kind.name}: {ended}"
        if ended.code != 128 + kind:
            return f"expected exit code {128 + kind}: {ended}"
        saved_to = max(saved, default=0)
        return None if twice else f"{taken[-1]} steps were taken, and those up to {saved_to} saved: {ended}"
