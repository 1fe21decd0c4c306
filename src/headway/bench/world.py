"""World models over seeds against Q-learning with the same environment steps (Agarwal et al. 2021)."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headway.bench.result import BenchReport, Options
from headway.counts import counted
from headway.presets import preset
from headway.runs.seeds import seed_configs, train_and_play
from headway.tasks.world_model.comparison import WorldComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizes:
    """The preset with what is changed in it, its seeds, how many runs at a time, and the episodes each plays."""

    preset: str = "world-frozenlake"
    changes: Mapping[str, object] = field(default_factory=dict)
    seeds: int = 10
    beside: int = 2
    episodes: int = 1000


SIZES = WorldSizes()


def run(options: Options, sizes: WorldSizes | None = None) -> BenchReport:
    """Returns of every seed, their interquartile mean, and the probability of improvement over Q-learning."""
    sizes = sizes or SIZES
    name = options.data or sizes.preset
    configs = seed_configs(name, preset(name).recipe(), range(sizes.seeds), sizes.changes)
    steps = sum(config.train.steps for config in configs.values())
    print(f"{name}: {counted(sizes.seeds, 'run')}, {sizes.beside} at a time", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        played = train_and_play(
            configs,
            Path(folder),
            beside=sizes.beside,
            episodes=sizes.episodes,
            told=lambda done: options.told("training", done, steps),
        )
    found = WorldComparison(played)
    values = found.to_json()
    del values["runs"]
    returns = {f"return_{seed}": float(each["mean_return"]) for seed, each in played.items()}
    return BenchReport([], values | returns, found.facts(), found.tables())
