"""Several runs side by side: the settings in which they differ, their scores, and their validation losses by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway import config as configs
from headway.errors import ConfigError
from headway.runs.folder import read_config
from headway.runs.info import run_info
from headway.training.log import LOG, read_log

SCORES = ("parameters", "step", "best_step", "best_loss", "best_by", "best_value", "seconds", "bytes")
MISSING = None  # of a setting that a run does not have


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What several runs have in common and what not; every list is in the order of `runs`."""

    runs: tuple[str, ...]
    differences: dict[str, list[Any]]  # config keys whose values differ
    scores: dict[str, list[Any]]
    curves: list[list[tuple[int, float]]]  # step and validation loss
    loss_unit: str  # of the first run
    notes: tuple[str, ...] = ()  # why figures may not be comparable

    def to_json(self) -> dict[str, Any]:
        """One object for JSON: what is not finite is null."""
        return {
            "runs": list(self.runs),
            "differences": self.differences,
            "scores": {name: [_finite(value) for value in values] for name, values in self.scores.items()},
            "curves": [[[step, _finite(loss)] for step, loss in curve] for curve in self.curves],
            "notes": list(self.notes),
        }


def compare_runs(folders: Sequence[Path]) -> Comparison:
    """Compare two runs or more by what their folders say; no weights are read. Raises NoRunError, ConfigError."""
    if len(folders) < 2:
        raise ConfigError(f"runs compare takes two runs or more, got {len(folders)}")
    loaded = [read_config(folder) for folder in folders]
    settings = [configs.flat(configs.plain(config)) for config in loaded]
    infos = [run_info(folder) for folder in folders]
    logs = [read_log(folder / LOG) for folder in folders]
    for info, log in zip(infos, logs, strict=True):
        info["seconds"] = round(sum(entry.get("seconds", 0.0) for entry in log), 1) if log else None
    measured = dict.fromkeys(name for info in infos for name in info if name.startswith("val_"))
    return Comparison(
        runs=tuple(str(folder) for folder in folders),
        differences=_differences(settings),
        scores={name: [info.get(name) for info in infos] for name in (*SCORES, *measured)},
        curves=[_curve(log) for log in logs],
        loss_unit=f"{loaded[0].task.loss_unit} per {loaded[0].task.unit.removesuffix('s')}",
        notes=tuple(_notes(infos)),
    )


def _differences(settings: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    keys = dict.fromkeys(key for each in settings for key in each)
    values = {key: [each.get(key, MISSING) for each in settings] for key in keys}
    return {key: found for key, found in values.items() if any(value != found[0] for value in found)}


def _curve(log: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    return [(entry["step"], entry["val_loss"]) for entry in log if isinstance(entry.get("val_loss"), float)]


def _notes(infos: Sequence[dict[str, Any]]) -> list[str]:
    """Why the losses may not be comparable."""
    notes = []
    for key, what in (("task", "tasks"), ("digest_val", "validation data"), ("vocabulary", "vocabularies")):
        if len({info.get(key) for info in infos}) > 1:
            notes.append(f"not comparable by their losses: the runs have different {what}")
            break
    return notes


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
