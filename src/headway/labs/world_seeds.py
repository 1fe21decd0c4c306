"""World models over seeds: runs that differ in their seed alone, side by side, and their scores as one figure. No lab.

One seed is not a result: the interquartile mean over seeds with a bootstrap interval, and the probability that a run is
better than Q-learning with the same environment steps (Agarwal et al. 2021).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from headway.config import override
from headway.errors import ConfigError
from headway.metrics.run_aggregates import Estimate, bootstrap, interquartile_mean, probability_of_improvement
from headway.presets import preset
from headway.runs import load, train_run
from headway.runs.config import RunConfig
from headway.runs.folder import CONFIG
from headway.tasks.capabilities import Plays
from headway.training.log import LOG

POLL = 1.0  # seconds between two looks at how far the runs are


@dataclass(frozen=True, slots=True)
class WorldComparison:
    """What `play` said of each run, by seed."""

    played: Mapping[int, Mapping[str, Any]]

    def scores(self, key: str) -> list[float]:
        """A figure of every run, in the order of the seeds."""
        return [float(values[key]) for values in self.played.values()]

    @property
    def mean(self) -> Estimate:
        """The interquartile mean of the returns."""
        return bootstrap(interquartile_mean, self.scores("mean_return"))

    @property
    def without_model(self) -> Estimate:
        """The interquartile mean of Q-learning's returns."""
        return bootstrap(interquartile_mean, self.scores("model_free_return"))

    @property
    def improvement(self) -> Estimate:
        """The probability that a run is better than Q-learning."""
        return bootstrap(probability_of_improvement, self.scores("mean_return"), self.scores("model_free_return"))

    def to_json(self) -> dict[str, Any]:
        """Every run and the aggregates."""
        figures = {
            "interquartile_mean": self.mean,
            "model_free_interquartile_mean": self.without_model,
            "probability_of_improvement": self.improvement,
        }
        flat = {
            f"{name}{end}": value
            for name, found in figures.items()
            for end, value in (("", found.value), ("_low", found.low), ("_high", found.high))
        }
        return {**flat, "lowest": min(self.scores("mean_return")), "runs": {str(k): v for k, v in self.played.items()}}


def run_configs(name: str, seeds: Sequence[int], changes: Mapping[str, object]) -> dict[int, RunConfig]:
    """The preset's recipe for each seed. Raises ConfigError for a preset that plays no environment."""
    recipe = preset(name).recipe()
    pipeline = recipe.task.pipeline_class()
    if not (issubclass(pipeline, Plays) and pipeline.has_baseline):
        raise ConfigError(f"--preset {name} is a {recipe.task.title}, allowed: world models, such as world-cartpole")
    return {seed: override(recipe, {**changes, "train.seed": seed}) for seed in seeds}


def place(folder: Path, seed: int) -> Path:
    """The run of a seed."""
    return folder / f"seed-{seed}"


def train_and_play(
    configs: Mapping[int, RunConfig],
    folder: Path,
    *,
    beside: int,
    episodes: int,
    told: Callable[[int], None] = lambda steps: None,
) -> WorldComparison:
    """Train every run that is not finished, `beside` at a time in a process each, and play; `told` gets all steps."""
    if len(configs) == 1:
        ((seed, config),) = configs.items()
        return WorldComparison({seed: _one(config, place(folder, seed), episodes)})
    threads = max((os.cpu_count() or 1) // beside, 1)
    with ProcessPoolExecutor(beside, mp_context=get_context("spawn")) as pool:
        running = {
            pool.submit(_one, config, place(folder, seed), episodes, threads): seed for seed, config in configs.items()
        }
        found: dict[int, dict[str, Any]] = {}
        open_ = set(running)
        try:
            while open_:
                done, open_ = wait(open_, timeout=POLL, return_when=FIRST_COMPLETED)
                found.update({running[each]: each.result() for each in done})
                told(sum(_steps(place(folder, seed)) for seed in configs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return WorldComparison({seed: found[seed] for seed in configs})


def _one(config: RunConfig, folder: Path, episodes: int, threads: int | None = None) -> dict[str, Any]:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    train_run(config, folder, resume=(folder / CONFIG).exists())
    return load(folder, device=config.train.device).play(episodes=episodes).to_json()


def _steps(folder: Path) -> int:
    """How many steps the log of a run has."""
    try:
        with (folder / LOG).open("rb") as log:
            return sum(1 for _ in log)
    except OSError:  # not begun
        return 0
