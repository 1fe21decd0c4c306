"""Benchmark results, options and timing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from headway.tasks.report import Section


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds of headway and of a peer, in the same run on the same inputs."""

    name: str
    ours: float
    peer: float

    @property
    def ratio(self) -> float:
        """The speed-up over the peer."""
        return self.peer / self.ours


@dataclass(frozen=True, slots=True)
class BenchReport:
    """The results of a benchmark, and values without a peer."""

    results: list[Result]
    figures: dict[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)  # figures as people read them, in place of `figures`
    tables: Sequence[Section] = ()

    def to_json(self) -> dict[str, float]:
        """The flat object that `headway bench --json` prints."""
        return {**{result.name: round(result.ratio, 3) for result in self.results}, **self.figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `headway bench`: data other than the generated, and the Python of each peer's environment.

    `told` gets what a benchmark is doing, how much of it is done, and of how much.
    """

    data: str | None = None
    source: str = "en"
    target: str = "de"
    peers: Mapping[str, str] = field(default_factory=dict)
    told: Callable[[str, int, int], None] = lambda what, done, total: None


def compare(
    name: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> Result:
    """Time both alternately, so that background load affects both; the median of each."""
    times: tuple[list[float], list[float]] = ([], [])
    for round_ in range(rounds + 1):
        for call, kept in zip((ours, peer), times, strict=True):
            start = clock()
            call()
            if round_:  # the first round warms up
                kept.append(clock() - start)
    return Result(name, median(times[0]), median(times[1]))
