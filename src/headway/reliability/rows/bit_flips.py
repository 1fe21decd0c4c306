"""One bit of one file of a run flips, then a command reads the run, or training resumes."""

from __future__ import annotations

from pathlib import Path
from random import Random

from headway.reliability.answers import make_subjects
from headway.reliability.damage import flip_bit
from headway.reliability.row import CampaignRow, Outcome, Place


class BitFlips(CampaignRow):
    """The command fails, or says what it noticed, or answers exactly as without the damage."""

    name = "bit-flips"
    what = "a bit of any file of a run flips: a command that reads it notices, or gives the same answer"
    requirement = "F3"
    counted = "flips"
    trials = 10_000
    least = 10
    weight = 3.0

    def prepare(self, place: Place) -> None:
        self.place, self.subjects = place, make_subjects(place)

    def trial(self, number: int, chance: Random) -> Outcome:
        subject = chance.choice(self.subjects)
        name = chance.choice(subject.files)

        def flip(folder: Path, chance: Random) -> str:
            data = (folder / name).read_bytes()
            (folder / name).write_bytes(flip_bit(data, chance))
            return f"a bit of {name}"

        return subject.trial(self.place, chance, flip)
