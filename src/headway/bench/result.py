"""What a comparison gives, and the clock it is measured with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Result:
    """One line of a comparison: seconds here, seconds there, in the same run on the same inputs."""

    name: str
    ours: float
    peer: float

    @property
    def ratio(self) -> float:
        """How many times faster than the peer."""
        return self.peer / self.ours


@dataclass(frozen=True, slots=True)
class Report:
    """The lines of a comparison, and figures that have no peer."""

    results: list[Result]
    figures: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, float]:
        """The flat object that `headway bench --json` prints."""
        return {**{result.name: round(result.ratio, 3) for result in self.results}, **self.figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a comparison may be told: other data than its own."""

    data: str | None = None
    source: str = "en"
    target: str = "de"


def compare(
    name: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> Result:
    """Time both in turns, so that a busy moment of the machine falls on both; the median of each."""
    times: tuple[list[float], list[float]] = ([], [])
    for round_ in range(rounds + 1):
        for call, kept in zip((ours, peer), times, strict=True):
            start = clock()
            call()
            if round_:  # the first round warms up
                kept.append(clock() - start)
    return Result(name, median(times[0]), median(times[1]))
