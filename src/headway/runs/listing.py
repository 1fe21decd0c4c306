"""The runs below a folder, one row each, read without their weights, without a lock and without writing anything."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headway import config as configs
from headway.errors import ConfigError, HeadwayError
from headway.runs.config import RunConfig
from headway.runs.folder import CONFIG, read_config
from headway.runs.plan import parameter_count
from headway.runs.sizes import run_sizes
from headway.storage.locks import lock_holder
from headway.storage.manifest import MANIFEST
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG, last_entries

TRAINING, FINISHED, STOPPED, IMPORTED, DAMAGED = "training", "finished", "stopped", "imported", "damaged"
DEPTH = 4  # levels of folders below the one given: `lab positions` writes its runs two deep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What the list says about a run; None where the run does not say."""

    run: str  # its folder
    task: str | None = None
    model: str | None = None
    parameters: int | None = None
    data: str | None = None
    step: int | None = None
    steps: int | None = None  # planned; None for an imported run
    best: float | None = None  # the validation loss of the best checkpoint
    best_step: int | None = None
    best_by: str | None = None  # the figure that it was chosen by
    best_value: float | None = None
    bytes: int = 0
    age: float | None = None  # seconds since training last wrote
    state: str = DAMAGED
    process: int | None = None  # which trains it
    problem: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # the config, by dotted key

    def to_json(self) -> dict[str, Any]:
        """For JSON, without the settings."""
        return {name: value for name, value in asdict(self).items() if name != "settings"}


def find_runs(folders: Sequence[Path]) -> list[Path]:
    """The run folders at or below these. Raises ConfigError for one that is not there."""
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            there = "not a folder" if os.path.lexists(folder) else "no such folder"
            raise ConfigError(f"{folder}: {there}; name a run, or a folder that has runs")
        found |= dict.fromkeys(_below(folder, DEPTH))
    return list(found)


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, or what is left of one."""
    return (folder / CONFIG).is_file() or ((folder / "checkpoints").is_dir() and (folder / MANIFEST).is_file())


def siblings(run: Path) -> list[Path]:
    """The runs in the same folder as a run, itself included."""
    with contextlib.suppress(OSError):  # another user's
        return [path for path in sorted(run.parent.iterdir()) if path.is_dir() and is_run(path)]
    return [run]


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
    elif depth:
        with contextlib.suppress(OSError):  # another user's
            for path in sorted(folder.iterdir()):
                if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
                    yield from _below(path, depth - 1)


def run_row(folder: Path, *, now: float | None = None) -> RunRow:
    """The row of a run; `problem` names what is damaged in it."""
    holder, size = lock_holder(folder), run_sizes(folder).total
    problems: list[str] = []
    facts: dict[str, Any] = {}
    try:
        config = read_config(folder)
        facts = _identity(config)
        facts |= _progress(folder, config, problems.append)
    except HeadwayError as error:
        problems.append(str(error))
    state = facts.pop("state", DAMAGED)
    if problems:
        state = DAMAGED
    if holder is not None:
        state = TRAINING
    return RunRow(
        run=str(folder),
        bytes=size,
        age=age_of(folder, now=now),
        state=state,
        process=holder,
        problem=problems[0] if problems else None,
        **facts,
    )


def _identity(config: RunConfig) -> dict[str, Any]:
    return {
        "task": configs.kind(type(config.task)),
        "model": configs.kind(type(config.model)),
        "parameters": parameter_count(config),
        "data": config.data.spec or None,
        "settings": configs.flat(configs.plain(config)),
    }


def _progress(folder: Path, config: RunConfig, problem: Callable[[str], None]) -> dict[str, Any]:
    """How far the run is, how well, and whether it is done."""
    checkpoints = Checkpoints(folder, problem)
    saved, best = checkpoints.listed(), checkpoints.best()
    trained, _, _ = last_entries(folder / LOG)
    step = max([0, *saved[-1:], trained.get("step", 0)])
    facts: dict[str, Any] = {"step": step}
    if best is not None:
        facts |= {"best": best.loss, "best_step": best.step}
        facts |= {"best_by": best.criterion.figure, "best_value": best.figure}
    if not config.data.spec:
        return facts | {"state": IMPORTED}
    patience = config.train.patience
    done = bool(saved) and (saved[-1] >= config.train.steps or (patience and checkpoints.stale() >= patience))
    return facts | {"steps": config.train.steps, "state": FINISHED if done else STOPPED}


def age_of(folder: Path, *, now: float | None = None) -> float | None:
    """Seconds since training wrote to its log, or else since the run was made."""
    now = time.time() if now is None else now
    for path in (folder / LOG, folder / CONFIG, folder):
        with contextlib.suppress(OSError):
            return max(0.0, now - path.stat().st_mtime)
    return None


# --- sorting and filtering -------------------------------------------------------------------------------------------

SORTS: dict[str, tuple[str, bool]] = {  # by the name of --sort: the field, and whether the largest comes first
    "name": ("run", False),
    "task": ("task", False),
    "model": ("model", False),
    "parameters": ("parameters", True),
    "step": ("step", True),
    "best": ("best", False),
    "size": ("bytes", True),
    "age": ("age", False),
    "state": ("state", False),
}


def sorted_rows(rows: Sequence[RunRow], key: str) -> list[RunRow]:
    """The rows in an order of SORTS; those that do not have the figure come last."""
    name, largest_first = SORTS[key]
    known = [row for row in rows if getattr(row, name) is not None]
    return [
        *sorted(known, key=lambda row: getattr(row, name), reverse=largest_first),
        *(row for row in rows if getattr(row, name) is None),
    ]


def matches(row: RunRow, wanted: str) -> bool:
    """Whether a run meets a filter: KEY=VALUE, a field of the list or a config key; or a word in what the list says.

    Raises ConfigError for a key that no run can have.
    """
    key, equals, value = wanted.partition("=")
    if equals:
        found = row.to_json().get(key, row.settings.get(key))
        if key not in row.to_json() and key not in row.settings and "." not in key:
            raise ConfigError(
                f"--filter {wanted}: no field {key!r}, allowed: {', '.join(row.to_json())}, or a config key such as "
                "train.seed"
            )
        return _text(found) == value
    shown = (row.run, row.task, row.model, row.data, row.state)
    return any(wanted.lower() in text.lower() for text in shown if text is not None)


def _text(value: Any) -> str:
    """A value as it is written on the command line."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
