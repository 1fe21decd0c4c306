"""What a row of the campaign is: a kind of trial, repeated many times, and counted."""

from __future__ import annotations

import random
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from headway.reliability.runs import MadeRun


class Verdict(Enum):
    """How a trial ended."""

    OK = "ok"  # the fault did no harm: the result is the one expected
    NOTICED = "noticed"  # the fault was reported, on stderr or by an exit code of the published table
    WITHOUT_EFFECT = "without effect"  # the fault changed nothing that is used: the answer is exactly the clean one
    FAILED = "failed"  # anything else


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one trial. `count` is how many faults it injected, where that may be several (kills) or none."""

    verdict: Verdict
    reason: str = ""  # of a failure: what was expected and what happened, in one line
    count: int = 1
    times: Mapping[str, Sequence[float]] = field(default_factory=dict)  # seconds, by what they were measured of


def ok(count: int = 1, times: Mapping[str, Sequence[float]] | None = None) -> Outcome:
    """The result is the one expected."""
    return Outcome(Verdict.OK, count=count, times=times or {})


def noticed(count: int = 1) -> Outcome:
    """The fault was reported."""
    return Outcome(Verdict.NOTICED, count=count)


def without_effect(count: int = 1) -> Outcome:
    """The answer is exactly the one without the fault."""
    return Outcome(Verdict.WITHOUT_EFFECT, count=count)


def failed(reason: str, count: int = 1, times: Mapping[str, Sequence[float]] | None = None) -> Outcome:
    """A failure; `reason` is one line that names what was expected and what happened."""
    return Outcome(Verdict.FAILED, reason, count=max(count, 1), times=times or {})


def _ignore(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows work: a temporary folder, the tiny runs, and the seed. Removed when the campaign ends."""

    folder: Path
    seed: int = 0
    long: bool = False  # the long form was asked for
    workers: int = 1  # processes that may compute at once
    runs: Mapping[str, MadeRun] = field(default_factory=dict)  # a trained run of each task by its name, see runs.py
    note: Callable[[str], None] = _ignore  # says, in `prepare`, what cannot be tried on this machine, and why

    @property
    def cache(self) -> Path:
        """Where the runs keep their prepared data."""
        return self.folder / "cache"

    def own(self, row: str) -> Path:
        """A folder of one row, kept for the whole campaign. For `prepare`; trials must not change what is in it."""
        made = self.folder / "rows" / row
        made.mkdir(parents=True, exist_ok=True)
        return made

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder of one trial, removed at its end."""
        made = Path(tempfile.mkdtemp(prefix="trial-", dir=self.folder))
        try:
            yield made
        finally:
            made.chmod(0o700)
            shutil.rmtree(made, ignore_errors=True)


class CampaignRow(ABC):
    """A kind of trial.

    The engine makes one object per row, calls `prepare` once, in the process from which all workers are forked, and
    then `trial` in the workers, with the numbers 0, 1, 2, … in any order and in any process. A trial is derived from
    the seed, the row and its number alone, so that it can be repeated; what `prepare` stores in the object is read by
    the trials, and never changed. Whatever a trial raises is a failure of that trial.
    """

    name: ClassVar[str]  # as on the command line, for instance "bit-flips"
    what: ClassVar[str]  # what is tested, in a few words that need no context
    requirement: ClassVar[str]  # the id in docs/reliability.md, for instance "F1"
    counted: ClassVar[str] = "trials"  # what is counted, in the plural: "kills", "flips", "command lines"
    trials: int  # how many in the long form; an exhaustive row sets it in `prepare`
    least: int = 2  # trials even if the time given is over
    weight: float = 1.0  # the share of the time in the short form, relative to the other rows
    exhaustive: ClassVar[bool] = False  # the trials are all the cases that there are: no bound on the rest is needed
    needs_runs: ClassVar[bool] = True  # `prepare` uses `place.runs`

    @abstractmethod
    def prepare(self, place: Place) -> None:
        """Make what all trials share."""

    @abstractmethod
    def trial(self, number: int, chance: random.Random) -> Outcome:
        """Inject one fault and judge what happens."""


def chance_of(seed: int, row: str, number: int) -> random.Random:
    """The random numbers of one trial."""
    return random.Random(f"{seed} {row} {number}")  # of a string: the same on every machine and in every version
