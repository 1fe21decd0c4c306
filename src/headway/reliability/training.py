"""Trainings that are interrupted in all ways and must end as if they had not been."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from headway.config import plain
from headway.reliability import disks
from headway.reliability.disks import TellingDisk
from headway.reliability.process import Child, start, start_command
from headway.reliability.runs import TinyRun
from headway.runs.config import RunConfig
from headway.runs.train import train_run
from headway.storage.manifest import MANIFEST
from headway.storage.targets import DRAFT
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG, read_log

STEPS, SAVE_EVERY, EVALUATE_EVERY = 8, 2, 4
OFTEN = {
    "train.steps": STEPS, "train.save_every": SAVE_EVERY, "train.evaluate_every": EVALUATE_EVERY, "train.keep": 2,
    "train.average": 0,
}  # fmt: skip
CPU_SECONDS = 60
RUN, CACHE = "run", "cache"  # below the folder of a training
NOT_COMPARED = (".lock", "curves.png", MANIFEST)  # the manifest names the run, and follows from the other files


@dataclass(frozen=True, slots=True)
class Training:
    """A training of a tiny run, with the config in a file, for the command."""

    tiny: TinyRun
    config: RunConfig
    file: Path

    @classmethod
    def of(cls, tiny: TinyRun, home: Path, changes: Mapping[str, object] | None = None) -> Training:
        """The training of a task with these changes; its config file goes to the folder `home`."""
        config = tiny.config(Path(CACHE), {**OFTEN, **(changes or {})})
        tree = plain(config)
        name = hashlib.sha256(json.dumps(tree, sort_keys=True, default=str).encode()).hexdigest()[:8]
        file = home / f"{tiny.task}-{name}.yaml"
        file.write_text(yaml.safe_dump(tree, sort_keys=False))
        return cls(tiny, config, file)

    def start(
        self,
        folder: Path,
        *,
        resume: bool = False,
        before: Callable[[], object] | None = None,
        command: bool = False,
        cold: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Train into the folder `run` of a folder in a child, which calls `before` first.

        By `headway train` if `command`, in a new Python if `cold`, else by the function that the command calls. The
        prepared data is in the folder's `cache`: a relative path, so that the config is the same everywhere.
        """
        folder.mkdir(exist_ok=True)
        if command or cold:
            words = ["train", str(self.tiny.preset), "--config", str(self.file), "--out", RUN]
            words += ["--resume"] if resume else []
            return start_command(
                words, before=before, cold=cold, environment=environment, cwd=folder, cpu_seconds=CPU_SECONDS
            )

        def work() -> None:
            if before is not None:
                before()
            train_run(self.config, Path(RUN), resume=resume)

        return start(work, environment=environment, cwd=folder, cpu_seconds=CPU_SECONDS)


def variants(tiny: TinyRun) -> list[dict[str, object]]:
    """Further settings for the trainings of a task: none, and all of those that add to the state of a training."""
    more: dict[str, object] = {"train.ema": 0.9, "train.precision": "bf16"}
    return [{}, {**more, "train.accumulate": 2} if tiny.accumulates else more]


@dataclass(frozen=True, slots=True)
class Target:
    """A training, what it ends as without an interruption, and how long that takes."""

    training: Training
    home: Path  # the folder of its run and its prepared data
    state: dict[str, str]
    points: int  # at which its process can die, see disks.py
    seconds: float


def targets(trainings: Sequence[Training], home: Path, workers: int) -> list[Target]:
    """Each training done once, without an interruption; several at a time, into folders below `home`."""
    found, running = [], deque[tuple[Training, Child]]()
    left = deque(trainings)
    while left or running:
        while left and len(running) < workers:
            running.append((left[0], left[0].start(home / left[0].file.stem, before=_tell_points)))
            left.popleft()
        training, child = running.popleft()
        ended = child.wait(seconds=120)
        if ended.code != 0:
            raise RuntimeError(f"training {training.file.name} failed: {ended}")
        folder = home / training.file.stem
        found.append(Target(training, folder, final_state(folder), len(ended.out.splitlines()), ended.seconds))
    return found


def _tell_points() -> None:
    """Print a line at every point at which the disk of this process could fail."""
    disks.use(TellingDisk())


def final_state(folder: Path) -> dict[str, str]:
    """What must be the same in two runs that ended alike: a digest of each file, of the log without its clock."""
    run, found = folder / RUN, {}
    for path in sorted(run.rglob("*")):
        if path.is_file() and path.name not in NOT_COMPARED:
            found[str(path.relative_to(run))] = hashlib.sha256(path.read_bytes()).hexdigest()
    entries = [{key: value for key, value in line.items() if key != "seconds"} for line in read_log(run / LOG)]
    return {**found, LOG: hashlib.sha256(json.dumps(entries).encode()).hexdigest()}


def difference(expected: Mapping[str, str], folder: Path, *, older: bool = True) -> str | None:
    """The first way in which a run differs from the one expected; None if it is the same.

    Without `older`, only the newest checkpoint is compared: a signal saves one more, for which an older one is removed.
    """
    found = final_state(folder)
    if not older:
        newest = Checkpoints(folder / RUN).path(STEPS).name
        expected, found = (
            {name: digest for name, digest in state.items() if "/" not in name or newest in name}
            for state in (expected, found)
        )
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} was left behind" if DRAFT in name else f"{name} should not be there"
        if found[name] != expected[name]:
            return f"{name} differs from that of the uninterrupted run"
    return None


def logged_steps(folder: Path) -> list[int]:
    """The steps taken, as the log of the run in a folder has them."""
    return sorted({int(line["step"]) for line in read_log(folder / RUN / LOG)})


def lost_work(folder: Path) -> str | None:
    """Whether more than one save interval was lost: the log has every step taken, the checkpoints those saved."""
    taken, saved = max(logged_steps(folder), default=0), max(Checkpoints(folder / RUN).steps(), default=0)
    return f"step {taken} was taken, and step {saved} is the last one saved" if taken - saved > SAVE_EVERY else None
