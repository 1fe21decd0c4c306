"""What may change when a run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headway import config as configs
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.runs.config import RunConfig

# What may change between two sittings of one run: how long, how often, where. All else would make it another run.
FREE_TO_CHANGE = (
    "train.steps",
    "train.evaluate_every",
    "train.save_every",
    "train.keep",
    "train.keep_looks",
    "train.keep_optimiser",
    "train.save_async",
    "train.device",
    "train.patience",
    "train.non_finite",
    "train.compile",
    "train.reduction",
    "train.shard",
    "train.recompute",
    "data.classes",
    "data.tokenizer.fit",  # the tokenizer is trained once
    "data.cache",
)


def expect_same(folder: Path, old: RunConfig, new: RunConfig) -> None:
    """Raise ConfigError naming the first key that would make this another run, with both values."""
    before, after = configs.flat(configs.plain(old)), configs.flat(configs.plain(new))
    sized = tuple(f"model.{key}" for key in old.task.sized_by_data(old.model))
    for key in sorted(before.keys() | after.keys()):
        free = key in FREE_TO_CHANGE or any(key == each or key.startswith(f"{each}.") for each in sized)
        if not free and before.get(key) != after.get(key):
            remedy = f"leave the option out to keep that, or pass --out for another folder than {folder}"
            raise ConfigError(f"--resume with {key}={after.get(key)!r}, the run has {before.get(key)!r}; {remedy}")
