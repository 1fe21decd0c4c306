"""Several world models, such as runs that differ in their seed: every score, and what all of them say together.

One seed is not a result: the interquartile mean over runs with a bootstrap interval, and the probability that a run is
better than Q-learning with the same environment steps (Agarwal et al. 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from headway.counts import counted
from headway.errors import ConfigError
from headway.metrics.run_aggregates import Estimate, bootstrap, interquartile_mean, probability_of_improvement
from headway.metrics.world import ReturnGap
from headway.tasks.capabilities import PlayResult
from headway.tasks.report import Figures, Section

OFFLINE, ONLINE = "model_free_return", "online_model_free_return"  # Q-learning on the same, on as many steps of its own


@dataclass(frozen=True, slots=True)
class WorldComparison(PlayResult):
    """What `play` said of each run, by its seed or folder."""

    header: ClassVar[tuple[str, ...]] = (
        "run",
        "return",
        "±",
        "imagined",
        "gap",
        "95 %",
        "Q-learning",
        "online",
        "steps",
    )
    columns: ClassVar[tuple[str, ...]] = (
        "mean_return", "return_error", "imagined_return", "imagined_less_real", "imagined_less_real_within",
        "model_free_return", "online_model_free_return", "environment_steps",
    )  # fmt: skip
    played: Mapping[int | str, Mapping[str, Any]]

    def scores(self, key: str) -> list[float]:
        """A figure of every run, in the order of the seeds."""
        return [float(values[key]) for values in self.played.values()]

    @property
    def mean(self) -> Estimate:
        """The interquartile mean of the returns."""
        return bootstrap(interquartile_mean, self.scores("mean_return"))

    @property
    def without_model(self) -> Estimate:
        """The interquartile mean of Q-learning's returns, on the same steps."""
        return bootstrap(interquartile_mean, self.scores(OFFLINE))

    @property
    def online(self) -> Estimate:
        """The interquartile mean of Q-learning's returns, on as many steps of its own."""
        return bootstrap(interquartile_mean, self.scores(ONLINE))

    def improvement(self, baseline: str = OFFLINE) -> Estimate:
        """The probability that a run is better than a baseline."""
        return bootstrap(probability_of_improvement, self.scores("mean_return"), self.scores(baseline))

    def exact_improvement(self, baseline: str = OFFLINE) -> Estimate | None:
        """The same by expected returns, which no chance of episodes is in; None where one is unknown."""
        if any("exact_return" not in each for each in self.played.values()):
            return None
        theirs = self.scores(baseline.replace("_return", "_exact_return"))
        return bootstrap(probability_of_improvement, self.scores("exact_return"), theirs)

    @property
    def aggregates(self) -> dict[str, tuple[str, Estimate]]:
        """What each is called and the estimate, by the names of `to_json`."""
        found = {
            "interquartile_mean": ("interquartile mean", self.mean),
            "model_free_interquartile_mean": ("the same of Q-learning", self.without_model),
            "online_model_free_interquartile_mean": ("the same of online Q-learning", self.online),
        }
        for kind, baseline in (("", OFFLINE), ("online_", ONLINE)):
            over = f"{kind.replace('_', ' ')}Q-learning"
            name = f"{kind}probability_of_improvement"
            found[name] = (f"probability of improvement over {over}", self.improvement(baseline))
            exact = self.exact_improvement(baseline)
            if exact is not None:
                found[f"exact_{name}"] = (f"over {over} by the true table", exact)
        return found

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The aggregates by what they are called."""
        return dict(self.aggregates.values())

    @property
    def imagined_within(self) -> int:
        """Runs whose imagined return is within the 95 % interval of the real one; one of twenty is expected not to."""
        gaps = zip(self.scores("imagined_less_real"), self.scores("imagined_less_real_within"), strict=True)
        return sum(ReturnGap(*gap).covers_zero for gap in gaps)

    def rows(self) -> list[tuple[Any, ...]]:
        """A row for each run, below `header`; `gap` is imagined less real, with half of its interval."""
        return [
            (name, *(round(value, 3) if isinstance(value, float) else value for value in map(each.get, self.columns)))
            for name, each in self.played.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Every run and the aggregates."""
        flat = {
            f"{name}{end}": value
            for name, (_, found) in self.aggregates.items()
            for end, value in (("", found.value), ("_low", found.low), ("_high", found.high))
        }
        runs = {str(name): values for name, values in self.played.items()}
        return {
            **flat,
            "lowest": min(self.scores("mean_return")),
            "imagined_within": self.imagined_within,
            "runs": runs,
        }

    def facts(self) -> dict[str, str]:
        """The aggregates."""
        near = f"{self.imagined_within} of {counted(len(self.played), 'run')}"
        return {**{name: str(each) for name, each in self.estimates.items()}, "imagined within 95 % of real": near}

    def tables(self) -> Sequence[Section]:
        """Every run."""
        return (Figures(list(self.header), [[str(cell) for cell in row] for row in self.rows()]),)

    def render(self, suffix: str) -> bytes:
        """Raise ConfigError: there are several first episodes."""
        raise ConfigError("--render shows one run; pass one RUN, or leave it out")
