"""What a campaign found: trials, failures and the bound on what was not tried, for each row."""

from __future__ import annotations

import datetime
import math
import os
import platform
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import headway
from headway.reliability.row import CampaignRow, Outcome, Verdict

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that failed."""

    row: str
    trial: int
    reason: str

    @property
    def again(self) -> str:
        """The value of `--only` that repeats it."""
        return f"{self.row}:{self.trial}"


@dataclass(slots=True)
class RowResult:
    """The outcomes of one row."""

    row: CampaignRow
    trials: int = 0
    count: int = 0  # of what the row counts; a trial may inject several faults
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)  # seconds, by what they were measured of
    seconds: float = 0.0

    def add(self, number: int, outcome: Outcome) -> None:
        """Count an outcome."""
        self.trials += 1
        self.count += outcome.count
        self.verdicts[outcome.verdict] += 1
        for name, seconds in outcome.times.items():
            if seconds:
                self.times.setdefault(name, []).extend(seconds)
        if outcome.verdict is Verdict.FAILED:
            self.failures.append(Failure(self.row.name, number, outcome.reason))

    @property
    def complete(self) -> bool:
        """Whether every case of an exhaustive row was tried."""
        return self.row.exhaustive and self.trials >= self.row.trials

    @property
    def bound(self) -> float | None:
        """The upper bound of the probability of a failure; None if every case there is was tried."""
        return None if self.complete else upper_bound(len(self.failures), self.count)

    def to_json(self) -> dict[str, Any]:
        """As one object."""
        return {
            "row": self.row.name,
            "what": self.row.what,
            "requirement": self.row.requirement,
            "counted": self.row.counted,
            "trials": self.trials,
            "count": self.count,
            "failures": len(self.failures),
            "upper_bound": self.bound,
            "exhaustive": self.complete,
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "times": {
                name: {"count": len(each), "median": round(median(each), 3), "maximum": round(max(each), 3)}
                for name, each in self.times.items()
            },
            "seconds": round(self.seconds, 2),
            "failed": [{"only": each.again, "reason": each.reason} for each in self.failures],
        }


@dataclass(slots=True)
class CampaignReport:
    """The results of a campaign, and where and how it was run."""

    seed: int
    long: bool
    workers: int
    rows: list[RowResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what could not be tried on this machine, and why
    seconds: float = 0.0
    stopped_by: int | None = None  # the signal that ended it early
    facts: dict[str, str] = field(default_factory=lambda: machine())

    @property
    def failures(self) -> list[Failure]:
        """Every failure, by row and trial."""
        return sorted((each for row in self.rows for each in row.failures), key=lambda each: each.trial)

    def to_json(self) -> dict[str, Any]:
        """As one object."""
        return {
            **self.facts,
            "seed": self.seed,
            "form": "long" if self.long else "short",
            "workers": self.workers,
            "seconds": round(self.seconds, 2),
            "complete": self.stopped_by is None,
            "failures": len(self.failures),
            "notes": self.notes,
            "rows": [row.to_json() for row in self.rows],
        }


def machine() -> dict[str, str]:
    """Versions, machine and date."""
    import torch

    return {
        "headway": headway.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} CPUs",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def upper_bound(failures: int, trials: int) -> float:
    """The 95 % upper bound of the probability of a failure: 3/N without failures, else Clopper and Pearson's (1934).

    3/N is the bound of Clopper and Pearson, 1 - 0.05^(1/N), rounded up.
    """
    if failures >= trials:
        return 1.0
    if failures == 0:
        return min(3 / trials, 1.0)
    low, high = failures / trials, 1.0
    for _ in range(60):  # that probability falls with p: halve the interval
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(failures, trials, middle) > 1 - CONFIDENCE else (low, middle)
    return high


def _at_most(failures: int, trials: int, p: float) -> float:
    """The probability of at most this number of failures."""

    def log_choose(k: int) -> float:
        return math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)

    logs = (log_choose(k) + k * math.log(p) + (trials - k) * math.log1p(-p) for k in range(failures + 1))
    return math.fsum(math.exp(each) for each in logs)
