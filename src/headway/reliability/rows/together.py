"""Four trainers and fifty readers on one run, at the same time."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.reliability.process import Child, start_command
from headway.reliability.row import CampaignRow, Outcome, Place, failed, ok
from headway.reliability.runs import MadeRun
from headway.reliability.training import RUN, Training, final_state
from headway.storage.targets import DRAFT
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG

TRAINERS, READERS = 4, 50
SECONDS, LONG_SECONDS = 12.0, 300.0
PATIENCE = 300.0  # seconds for one command: fifty share the processors
ROUND = 10  # the last step is a multiple, so that the run compared with is evaluated at the same steps
# A checkpoint at each step, of which one is kept: the one a reader has chosen may be gone when it reads.
SETTINGS: Mapping[str, object] = {
    "train.steps": 10**6, "train.save_every": 1, "train.evaluate_every": 5, "train.keep": 1,
    "train.schedule": "constant",
}  # fmt: skip
READS = ("generate", "score", "evaluate", "look", "info")


@dataclass(slots=True)
class TrainerProcess:
    """A process that wants to train, and whether it was told to end."""

    child: Child | None = None
    told: int | None = None
    not_before: float = 0.0


class Together(CampaignRow):
    """All on one run: one trains, the others are refused, readers read, and now and then the trainer is killed."""

    name = "together"
    what = (
        f"{TRAINERS} trainers and {READERS} readers on one run: one trains at a time, no reader fails, nothing is lost"
    )
    requirement = "F5"
    counted = "commands"
    trials = 1
    least = 1
    weight = 0.5

    def prepare(self, place: Place) -> None:
        self.place, self.home = place, place.own(self.name)
        self.made = next(made for made in place.runs.values() if made.tiny.trained)
        self.training = Training.of(self.made.tiny, self.home, SETTINGS)

    def trial(self, number: int, chance: random.Random) -> Outcome:
        with self.place.scratch() as folder:
            crowd = Crowd(self.made, self.training, folder, chance)
            crowd.work(LONG_SECONDS if self.place.long else SECONDS)
            count, wrong = crowd.ended, crowd.wrong or self._compare(folder)
        return failed(wrong, count) if wrong else ok(count)

    def _compare(self, folder: Path) -> str | None:
        """Whether the run is the one that a single trainer makes; both are trained to the same step."""
        steps = max(Checkpoints(folder / RUN).steps(), default=0) // ROUND * ROUND + ROUND
        rest = Training.of(self.made.tiny, folder, {**SETTINGS, "train.steps": steps})
        alone = Training.of(self.made.tiny, folder, {**SETTINGS, "train.steps": steps, "train.save_every": steps})
        for training, place, resume in ((rest, folder, True), (alone, folder / "alone", False)):
            ended = training.start(place, resume=resume).wait(seconds=PATIENCE)
            if ended.trouble:
                return f"trained to step {steps} {'together' if resume else 'alone'}: {ended.trouble}"
        left = [path.name for path in (folder / RUN).rglob("*") if DRAFT in path.name or path.name[:7] == "damaged"]
        if left:
            return f"{left[0]} was left behind"
        newest = Checkpoints(folder / RUN).path(steps).name
        mixed, single = (
            {name: digest for name, digest in final_state(each).items() if newest in name or name == LOG}
            for each in (folder, folder / "alone")
        )
        different = [name for name in single if mixed.get(name) != single[name]]
        return f"step {steps}: {different[0]} differs from that of a single trainer" if different else None


class Crowd:
    """The processes at work on one run."""

    def __init__(self, made: MadeRun, training: Training, folder: Path, chance: random.Random) -> None:
        self.made, self.training, self.folder, self.chance = made, training, folder, chance
        self.trainers = [TrainerProcess() for _ in range(TRAINERS)]
        self.readers: list[tuple[str, Child]] = []
        self.ended = 0
        self.wrong: str | None = None

    def work(self, seconds: float) -> None:
        """For so long, or until something goes wrong."""
        until, next_end = time.monotonic() + seconds, 0.0
        while not self.wrong and time.monotonic() < until:
            now = time.monotonic()
            self._train(now)
            self._read()
            if now > next_end:
                self._end_a_trainer()
                next_end = now + self.chance.uniform(0.5, 3)
            time.sleep(0.005)
        for trainer in self.trainers:
            if trainer.child is not None and trainer.told is None:
                trainer.told = signal.SIGTERM
                trainer.child.send(signal.SIGTERM)
        while any(each.child is not None for each in self.trainers) or self.readers:
            self._collect()
            time.sleep(0.005)

    def _train(self, now: float) -> None:
        self._collect()
        for trainer in self.trainers:
            if trainer.child is None and now > trainer.not_before:
                trainer.child = self.training.start(self.folder, resume=True, command=True)

    def _read(self) -> None:
        while len(self.readers) < READERS and Checkpoints(self.folder / RUN).steps():
            verb = self.chance.choice([verb for verb in READS if verb in self.made.can])
            words = self.made.command(verb, self.folder / f"read-{self.ended}-{len(self.readers)}", Path(RUN))
            self.readers.append((verb, start_command(words, cwd=self.folder)))

    def _end_a_trainer(self) -> None:
        """Kill one, or ask it to end, whichever it is: mostly the one that trains."""
        running = [each for each in self.trainers if each.child is not None and each.told is None]
        if running:
            trainer = self.chance.choice(running)
            trainer.told = self.chance.choice((signal.SIGKILL, signal.SIGTERM))
            assert trainer.child is not None
            trainer.child.send(trainer.told)

    def _collect(self) -> None:
        """Judge what has ended."""
        for trainer in self.trainers:
            ended = trainer.child.poll(PATIENCE) if trainer.child is not None else None
            if ended is not None:
                refused = ended.code == 2 and "is in use by process" in ended.err
                told = trainer.told is not None and (ended.signal == trainer.told or ended.code == 128 + trainer.told)
                if not refused and not told:
                    self.wrong = f"a trainer: {ended.problem or ended}"
                trainer.child, trainer.told = None, None
                trainer.not_before = time.monotonic() + self.chance.uniform(0.1, 1)
                self.ended += 1
        for verb, child in [*self.readers]:
            ended = child.poll(PATIENCE)
            if ended is not None:
                self.readers.remove((verb, child))
                self.ended += 1
                if ended.trouble:
                    self.wrong = f"{verb} while others train: {ended.trouble}"
