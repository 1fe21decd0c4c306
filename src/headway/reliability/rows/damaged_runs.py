"""Files of a run are cut, zeroed, lost, replaced or swapped, then a command reads the run, or training resumes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from headway.reliability.answers import RUN, TWIN, Subject, copy, make_subjects
from headway.reliability.damage import BYTE_DAMAGE, damaged, flip_bit
from headway.reliability.row import CampaignRow, Outcome, Place

KINDS = tuple(kind for kind in BYTE_DAMAGE if kind is not flip_bit)


class DamagedRuns(CampaignRow):
    """The command fails, or says what it noticed, or answers exactly as without the damage."""

    name = "damaged-runs"
    what = "files of a run are cut, zeroed, lost or swapped: a command notices, or gives the same answer"
    requirement = "F3"
    counted = "damaged runs"
    trials = 2_000
    least = 10
    weight = 1.5

    def prepare(self, place: Place) -> None:
        self.place, self.subjects = place, make_subjects(place)

    def trial(self, number: int, chance: Random) -> Outcome:
        subject = chance.choice(self.subjects)
        other = chance.choice(self.subjects)

        def damage(folder: Path, chance: Random) -> str:
            kind = chance.random()
            if kind < 0.4:
                return _bytes(subject, folder, chance)
            if kind < 0.7:
                return _swapped(subject, other, folder, chance)
            return _replaced(subject, folder, chance)

        return subject.trial(self.place, chance, damage)


def _bytes(subject: Subject, folder: Path, chance: Random) -> str:
    """Damage to the bytes of a file."""
    name = chance.choice(subject.files)
    kind, data = damaged((folder / name).read_bytes(), chance, KINDS)
    (folder / name).write_bytes(data)
    return f"{kind} of {name}"


def _replaced(subject: Subject, folder: Path, chance: Random) -> str:
    """A file is gone, or something else of its name is there, or a file more."""
    name = chance.choice(subject.files)
    path = folder / name
    kind = chance.randrange(6)
    if kind == 0:
        path.unlink()
        return f"{name} is missing"
    if kind == 1:
        path.unlink()
        path.mkdir()
        return f"{name} is a folder"
    if kind == 2:
        path.rename(folder / "elsewhere")
        path.symlink_to(os.path.relpath(folder / "elsewhere", path.parent))
        return f"{name} is a link to where it was moved"
    if kind == 3:
        path.unlink()
        os.mkfifo(path)
        return f"{name} is a pipe"
    if kind == 4:
        more = path.with_name(chance.choice(("more.json", "model.safetensors.tmp", "step-²", ".hidden", "notes.txt")))
        more.write_text("{}")
        return f"{more.relative_to(folder)} is there as well"
    # The newest checkpoint, or another folder: a run may lack older checkpoints, and then says which ones it used.
    newest = max(str(each) for each in Path(folder, RUN, "checkpoints").iterdir())
    gone = Path(newest) if "checkpoints" in path.parts else folder / RUN if path.parent == folder else path.parent
    shutil.rmtree(gone)
    return f"the folder {gone.relative_to(folder)} is missing"


def _swapped(subject: Subject, other: Subject, folder: Path, chance: Random) -> str:
    """A file or a checkpoint in the place of another of this run, of its twin, or of a run of another task."""
    kind = chance.randrange(5)
    if kind == 0:  # two files of the run, if possible of one name in two checkpoints
        name = chance.choice(subject.files)
        same = [each for each in subject.files if Path(each).name == Path(name).name and each != name]
        target = chance.choice(same or subject.files)
        one, two = folder / name, folder / target
        one.rename(folder / "held")
        if two.exists():
            two.rename(one)
        (folder / "held").rename(two)
        return f"{name} and {target} are swapped"
    if kind == 1:  # a file of the twin, which has the same shapes
        name = chance.choice([each for each in subject.files if each.startswith(RUN)])
        theirs = subject.folder / TWIN / Path(name).relative_to(RUN)
        if theirs.is_file():
            copy(theirs, folder / name)
        return f"{name} of another run of the task"
    if kind == 2:
        theirs_named = chance.choice([each for each in other.files if each.startswith(RUN)])
        if (folder / theirs_named).exists():
            copy(other.folder / theirs_named, folder / theirs_named)
        return f"{theirs_named} of a run of task {other.name}"
    checkpoints = sorted((folder / RUN / "checkpoints").glob("step-*"))
    one = chance.choice(checkpoints)
    if kind == 3:  # a whole checkpoint of the twin
        theirs = subject.folder / TWIN / one.relative_to(folder / RUN)
        if theirs.is_dir():
            shutil.rmtree(one)
            copy(theirs, one)
        return f"{one.name} of another run of the task"
    target_path = one.with_name(chance.choice(("step-00000059", *(path.name for path in checkpoints))))
    if target_path != one:
        shutil.rmtree(target_path, ignore_errors=True)
        copy(one, target_path)
    return f"{one.name} copied to {target_path.name}"
