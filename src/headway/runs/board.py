"""The runs below some folders with their settings and curves, as the dashboard shows them; no weights are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.inspection.page.html import document
from headway.runs.config import RunConfig
from headway.runs.folder import CONFIG, read_config
from headway.runs.listing import RunRow, age_of, find_runs, run_row
from headway.storage.locks import lock_holder
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG, Entry, LogFollower

POINTS = 300  # of a curve, at most
NOT_CURVES = ("step", "seconds", "tokens")
SPEED = "speed"  # tokens (or images) a second

Curve = list[tuple[int, float]]


class Board:
    """The runs at or below some folders. Of a run that has not changed nothing is read again.

    Raises ConfigError for a folder that is not there; one that is removed later is left out.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = list(folders)
        self._entries = {folder: BoardEntry(folder) for folder in find_runs(self.folders)}

    def entries(self) -> list[BoardEntry]:
        """The runs there are now."""
        found = find_runs([folder for folder in self.folders if folder.is_dir()])
        self._entries = {folder: self._entries.get(folder) or BoardEntry(folder) for folder in found}
        return list(self._entries.values())

    def to_json(self, known: Mapping[str, str] | None = None) -> dict[str, Any]:
        """All runs; of one whose version is `known`, its name, version and age alone."""
        given = known or {}
        return {"runs": [entry.to_json(given.get(entry.name)) for entry in self.entries()]}

    def page(self) -> str:
        """The dashboard as one HTML file that opens without a network."""
        return document({"title": "headway runs", "dashboard": self.to_json()})


class BoardEntry:
    """One run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, str(folder)
        self._log = LogFollower(folder / LOG)
        self._version, self._told = "", dict[str, Any]()

    @property
    def task(self) -> str | None:
        """The kind of its task; None of a damaged run."""
        found = self.current().get("task")
        return found if isinstance(found, str) else None

    def version(self) -> str:
        """What changes whenever something is written to the run, or its training begins or ends."""
        marks = [_mark(self.folder / name) for name in (LOG, CONFIG, "checkpoints")]
        return " ".join([*marks, str(lock_holder(self.folder))])

    def to_json(self, known: str | None = None) -> dict[str, Any]:
        """The row of the list, the settings and the curves; not these where the version is known."""
        told = self.current()
        short = {"run": self.name, "version": self._version, "age": age_of(self.folder)}
        return short if known == self._version else {**told, **short}

    def current(self) -> dict[str, Any]:
        """What was read of the run, again if it has changed since."""
        version = self.version()
        if version != self._version:
            self._told, self._version = self._read(), version
        return self._told

    def _read(self) -> dict[str, Any]:
        row = run_row(self.folder)
        found: dict[str, Any] = {**_finite(row), "name": self.folder.name or self.name, "settings": dict(row.settings)}
        try:
            config = read_config(self.folder)
        except HeadwayError:
            return {**found, "curves": {}, "loss_unit": "", "checkpoints": []}
        pipeline = config.task.pipeline_class()
        return {
            **found,
            "curves": curves(self._log.entries(), config),
            "loss_unit": f"{config.task.loss_unit} per {config.task.unit.removesuffix('s')}",
            "unit": config.task.unit,
            "title": config.task.title,
            "checkpoints": Checkpoints(self.folder).steps(),
            "looks": "look" in pipeline.can(config.model) and not pipeline.reads_files,
        }


def curves(log: Sequence[Entry], config: RunConfig) -> dict[str, Curve]:
    """Every figure of a log by step; of a training curve with more points than `POINTS`, means of equal parts.

    Of a task with phases, the losses of the main one.
    """
    main = config.task.main_phase
    found: dict[str, Curve] = {}
    for entry in log:
        if main is not None and entry.get("phase", main) != main:
            continue
        values = {name: value for name, value in entry.items() if name not in NOT_CURVES}
        if entry.get("seconds") and "tokens" in entry:
            values[SPEED] = entry["tokens"] / entry["seconds"]
        for name, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                found.setdefault(name, []).append((entry["step"], float(value)))
    return {name: thinned(curve) for name, curve in found.items()}


def thinned(curve: Curve, most: int = POINTS) -> Curve:
    """At most so many points: each the mean of a part of the curve, at its last step."""
    if len(curve) <= most:
        return curve
    parts = [curve[n * len(curve) // most : (n + 1) * len(curve) // most] for n in range(most)]
    return [(part[-1][0], math.fsum(value for _, value in part) / len(part)) for part in parts]


def _finite(row: RunRow) -> dict[str, Any]:
    pairs = row.to_json().items()
    return {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in pairs}


def _mark(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "-"
    return f"{found.st_size}.{found.st_mtime_ns}"
