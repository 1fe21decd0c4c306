"""Runs that differ in their seed alone, trained side by side and played: one seed is not a result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from headway.config import override
from headway.errors import ConfigError
from headway.runs.config import RunConfig
from headway.runs.folder import CONFIG
from headway.runs.run import load
from headway.runs.train import train_run
from headway.tasks.capabilities import Plays
from headway.training.log import LOG

POLL = 1.0  # seconds between two looks at how far the runs are
Played = Mapping[int | str, Mapping[str, Any]]  # of each seed, what `play` says of its run


def seed_configs(
    name: str, recipe: RunConfig, seeds: Sequence[int], changes: Mapping[str, object]
) -> dict[int, RunConfig]:
    """A preset's recipe for each seed. Raises ConfigError for a preset that is compared with no baseline in play."""
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
) -> Played:
    """Train every run that is not finished, `beside` at a time in a process each, and play; `told` gets all steps.

    One at a time needs no other process.
    """
    if len(configs) == 1 or beside == 1:
        played: dict[int | str, Mapping[str, Any]] = {}
        for seed, config in configs.items():
            played[seed] = _one(config, place(folder, seed), episodes)
            told(sum(_steps(place(folder, each)) for each in configs))
        return played
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
    return {seed: found[seed] for seed in configs}


def _one(config: RunConfig, folder: Path, episodes: int, threads: int | None = None) -> dict[str, Any]:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    train_run(config, folder, resume=(folder / CONFIG).exists())
    return load(folder, device=config.train.device).play(episodes=episodes).to_json()


def _steps(folder: Path) -> int:
    """How many steps the log of a run has; its other lines are those of evaluations."""
    try:
        with (folder / LOG).open("rb") as log:
            return sum(b'"learning_rate"' in line for line in log)
    except OSError:  # not begun
        return 0
