"""What came of asking for returns: in one run with intervals over episodes, in several with intervals over runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from headway.counts import counted
from headway.errors import ConfigError
from headway.metrics.run_aggregates import Estimate, bootstrap
from headway.metrics.world import ReturnStatistics, rank_correlation
from headway.tasks.capabilities import PictureKind, PlayResult
from headway.tasks.report import Figures, Section

ENDS = {"": "value", "_low": "low", "_high": "high"}  # of the keys of an estimate
OVER_EPISODES = "interval over episodes"
UNASKED = "return"  # what is shown of a run that is not asked for returns


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean())


def interval(found: Estimate) -> str:
    """A 95 % interval in words."""
    return f"[{found.low:.1f}, {found.high:.1f}]"


def _flat(name: str, found: Estimate) -> dict[str, float]:
    return {f"{name}{end}": getattr(found, part) for end, part in ENDS.items()}


@dataclass(frozen=True, slots=True)
class PlayedReturns:
    """Episodes for one target return, None where nothing is asked for."""

    target: float | None
    returns: NDArray[np.float64]  # (E,)

    @property
    def mean(self) -> Estimate:
        """The mean return with a bootstrap interval over episodes."""
        return bootstrap(_mean, self.returns)

    @property
    def key(self) -> str:
        """Its name in JSON."""
        return "return" if self.target is None else f"return_asked_{self.target:g}"


def relative_error(target: float, got: float) -> float:
    """How far an achieved return is from the target, as a share of the target's size; NaN of a target of 0."""
    return (got - target) / abs(target) if target else math.nan


def _asked_rows(targets: Sequence[float], means: Sequence[Estimate]) -> list[list[str]]:
    """Asked, got, the interval and the relative error, a row each."""
    return [
        [f"{target:g}", f"{got.value:.1f}", interval(got), f"{100 * relative_error(target, got.value):+.1f} %"]
        for target, got in zip(targets, means, strict=True)
    ]


def _interval_over(runs: Mapping[str, ReturnsReport]) -> str:
    """What an interval of the mean of runs is taken over."""
    return "interval over runs" if len(runs) > 1 else OVER_EPISODES


ASKED_HEADER = ("asked", "got", "95 % interval", "off by")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnsReport(PlayResult):
    """The returns of one run: for each target, or of a run that is not asked for any."""

    environment: str
    title: str  # what the run is, in words
    played: Sequence[PlayedReturns]
    logged: ReturnStatistics
    taken: int  # environment steps of the log

    @property
    def targets(self) -> tuple[float, ...]:
        """What was asked for; nothing where the model does not know returns."""
        return tuple(each.target for each in self.played if each.target is not None)

    @property
    def best(self) -> PlayedReturns:
        """The episodes for the largest target."""
        return max(self.played, key=lambda each: each.target or 0.0)

    @property
    def correlation(self) -> float:
        """The rank correlation of target returns and achieved returns; NaN where nothing is asked for."""
        got = np.asarray([_mean(each.returns) for each in self.played])
        return rank_correlation(np.asarray(self.targets), got) if self.targets else math.nan

    def _score(self) -> dict[str, Any]:
        score = ReturnStatistics.of(self.best.returns)
        return {
            "mean_return": score.mean,
            "return_error": score.error,
            "episodes": score.episodes,
            "environment_steps": self.taken,
            "logged_return": self.logged.mean,
            "rank_correlation": self.correlation,
        }

    def to_json(self) -> dict[str, Any]:
        """Flat values; the score is that of the largest target return."""
        values = self._score()
        for each in self.played:
            values |= _flat(each.key, each.mean)
        return values

    def evaluation(self) -> dict[str, Any]:
        """The same under keys that do not depend on the targets: lists with an entry for each."""
        means = [each.mean for each in self.played]
        lists = {f"got{end}": [getattr(each, name) for each in means] for end, name in ENDS.items()}
        return {**self._score(), "asked": [*self.targets], **lists}

    def facts(self) -> dict[str, str]:
        """What the run is, its log, and how returns are ranked."""
        episodes = counted(len(self.best.returns), "fresh episode")
        rows = {
            "environment": self.environment,
            "what it is": self.title,
            "log": f"{self.logged}  mean return of {counted(self.logged.episodes, 'episode')}, "
            f"{counted(self.taken, 'environment step')}",
        }
        if self.targets:
            return rows | {"rank correlation": f"{self.correlation:.3f}  of asked and got, {episodes} each"}
        got = self.best.mean
        return rows | {UNASKED: f"{got.value:.1f} {interval(got)}  mean of {episodes}, 95 % interval"}

    def tables(self) -> Sequence[Section]:
        """Each target return with what came of it."""
        if not self.targets:
            return ()
        rows = _asked_rows(self.targets, [each.mean for each in self.played])
        return [Figures(ASKED_HEADER, rows, title="returns", footnote=OVER_EPISODES)]

    def plot(self, kind: PictureKind, title: str) -> bytes:
        """Asked against got, with the interval over episodes. Raises ConfigError where nothing is asked for."""
        from headway.plots.returns import plot_returns

        if not self.targets:
            raise ConfigError("--plot: the run is not asked for returns; plot it beside a run that is")
        means = [each.mean for each in self.played]
        band = f"95 % {OVER_EPISODES}"
        return plot_returns(self.targets, means, title=f"{self.environment}, {title}", band=band, kind=kind)

    def render(self, suffix: str) -> bytes:
        """Raise ConfigError: nothing is imagined."""
        raise ConfigError("--render is not supported by a decision transformer: it does not imagine episodes")

    @classmethod
    def over_runs(cls, played: Mapping[str, PlayResult]) -> ReturnsOverRuns:
        """Several runs, those that are asked for returns beside those that are not. Raises ConfigError."""
        return ReturnsOverRuns.of({name: cast("ReturnsReport", each) for name, each in played.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnsOverRuns(PlayResult):
    """Several runs of one environment: those that were asked for the same returns, and those that clone behaviour."""

    asked: Mapping[str, ReturnsReport]
    cloned: Mapping[str, ReturnsReport]

    @classmethod
    def of(cls, played: Mapping[str, ReturnsReport]) -> ReturnsOverRuns:
        """Raises ConfigError for runs of several environments, or with several lists of targets."""
        first = next(iter(played))
        for name, each in played.items():
            if each.environment != played[first].environment:
                raise ConfigError(
                    f"{name} plays {each.environment}, {first} {played[first].environment}; allowed: one environment"
                )
        asked = {name: each for name, each in played.items() if each.targets}
        lists = {each.targets: name for name, each in asked.items()}
        if len(lists) > 1:
            told = "; ".join(f"{name} {', '.join(f'{x:g}' for x in targets)}" for targets, name in lists.items())
            raise ConfigError(f"runs with several lists of task.targets ({told}), allowed: one list")
        return cls(asked=asked, cloned={name: each for name, each in played.items() if not each.targets})

    @property
    def targets(self) -> tuple[float, ...]:
        """What the runs were asked for."""
        return next((each.targets for each in self.asked.values()), ())

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean return of each run for each target (R, K)."""
        return np.asarray([[_mean(part.returns) for part in each.played] for each in self.asked.values()])

    @property
    def got(self) -> list[Estimate]:
        """The mean for each target, with an interval over runs; of one run over its episodes."""
        if len(self.asked) == 1:
            (run,) = self.asked.values()
            return [each.mean for each in run.played]
        return [bootstrap(_mean, column) for column in self.means.T]

    @property
    def cloning(self) -> Estimate | None:
        """The same of the runs that clone behaviour; None without any."""
        runs = [each.best for each in self.cloned.values()]
        if len(runs) > 1:
            return bootstrap(_mean, [_mean(each.returns) for each in runs])
        return runs[0].mean if runs else None

    def to_json(self) -> dict[str, Any]:
        """Means over runs with intervals, and each run."""
        values: dict[str, Any] = {}
        for target, found in zip(self.targets, self.got, strict=True):
            key = f"return_asked_{target:g}"
            values |= {**_flat(key, found), f"relative_error_asked_{target:g}": relative_error(target, found.value)}
        if self.asked:
            values["rank_correlation"] = float(np.mean([each.correlation for each in self.asked.values()]))
        if self.cloning is not None:
            values |= _flat("cloned_return", self.cloning)
        return {**values, "runs": {name: each.to_json() for name, each in {**self.asked, **self.cloned}.items()}}

    def facts(self) -> dict[str, str]:
        """How many runs, of which kinds."""
        kinds = {"asked for returns": self.asked, "not asked": self.cloned}
        first = {name: next(iter(runs.values())) for name, runs in kinds.items() if runs}
        rows = {name: f"{counted(len(kinds[name]), 'run')}, {each.title}" for name, each in first.items()}
        return {"environment": next(iter(first.values())).environment, **rows}

    def tables(self) -> Sequence[Section]:
        """Every run, then the means over runs."""
        found: list[Section] = []
        if self.asked:
            header = ["run", *(f"{target:g}" for target in self.targets), "rank correlation"]
            rows = [
                [name, *(f"{_mean(part.returns):.1f}" for part in each.played), f"{each.correlation:.3f}"]
                for name, each in self.asked.items()
            ]
            found.append(Figures(header, rows, title="each run, by the return it was asked for"))
            asked = _asked_rows(self.targets, self.got)
            found.append(Figures(ASKED_HEADER, asked, title="mean over runs", footnote=_interval_over(self.asked)))
        if self.cloning is not None:
            cloned = [
                [name, f"{each.best.mean.value:.1f}", interval(each.best.mean)] for name, each in self.cloned.items()
            ]
            cloned.append(["mean over runs", f"{self.cloning.value:.1f}", interval(self.cloning)])
            header = ["run", UNASKED, "95 % interval"]
            footnote = f"of the mean, {_interval_over(self.cloned)}"
            found.append(Figures(header, cloned, title="behaviour cloning", footnote=footnote))
        return found

    def plot(self, kind: PictureKind, title: str) -> bytes:
        """Asked against got of every run, their mean with its interval, and behaviour cloning."""
        from headway.plots.returns import plot_returns

        if not self.asked:
            raise ConfigError("--plot: none of the runs is asked for returns, allowed: at least one that is")
        return plot_returns(
            self.targets,
            self.got,
            runs=self.means,
            cloned=self.cloning,
            title=f"{self.facts()['environment']}, {title}",
            band=f"95 % {_interval_over(self.asked)}",
            kind=kind,
        )
