"""Death at every single operation of the disk during a training, and a loss of power there."""

from __future__ import annotations

import random
import signal
from functools import partial

from headway.reliability import disks
from headway.reliability.disks import DyingDisk
from headway.reliability.row import CampaignRow, Outcome, Place, failed, ok
from headway.reliability.training import Training, difference, lost_work, targets

# Four saves: the third drops the training state of the first, the fourth removes the first.
SETTINGS = {
    "train.steps": 8, "train.save_every": 2, "train.evaluate_every": 4, "train.keep": 3, "train.ema": 0.9,
}  # fmt: skip


class CrashPoints(CampaignRow):
    """A training of eight steps dies at its n-th point, for every n, and is resumed."""

    name = "crash-points"
    what = "the process dies, or the power fails, at every single disk operation of a training"
    requirement = "F2"
    counted = "points"
    exhaustive = True
    least = 8
    weight = 2.0

    def prepare(self, place: Place) -> None:
        self.place, home = place, place.own(self.name)
        tiny = next(made.tiny for made in place.runs.values() if made.tiny.trained)
        (self.target,) = targets([Training.of(tiny, home, SETTINGS)], home, 1)
        # In a random order, so that a campaign that ends early has seen points from everywhere.
        self.cases = [(point, power_loss) for point in range(self.target.points) for power_loss in (False, True)]
        random.Random(place.seed).shuffle(self.cases)
        self.trials = len(self.cases)

    def trial(self, number: int, chance: random.Random) -> Outcome:
        point, power_loss = self.cases[number % len(self.cases)]
        where = f"{'loss of power' if power_loss else 'death'} at point {point} of {self.target.points}"
        with self.place.scratch() as folder:
            disk = DyingDisk(point, chance, power_loss=power_loss)
            ended = self.target.training.start(folder, before=partial(disks.use, disk)).wait()
            if ended.signal != signal.SIGKILL or ended.hung:
                return failed(f"{where}: expected to die there: {ended.problem or ended}")
            lost = None if power_loss else lost_work(folder)
            ended = self.target.training.start(folder, resume=True).wait()
            wrong = lost or ended.trouble or difference(self.target.state, folder)
        return failed(f"{where}: {wrong}") if wrong else ok()
