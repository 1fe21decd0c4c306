"""Training with what a user sees of it: a bar on stderr, event files, and the curves at the end."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headway.cli.progress import CallbackList, TrainingBar
from headway.cli.tensorboard import Tensorboard
from headway.errors import StorageError
from headway.plots.curves import plot_curves
from headway.runs import train_run
from headway.runs.config import RunConfig
from headway.storage.commit import commit_file
from headway.training.trainer import LOG, read_log


def train_and_draw(
    config: RunConfig, folder: Path, *, resume: bool, tensorboard: bool = False, init: Path | None = None
) -> None:
    """Train into a folder with a bar on stderr; the curves are drawn however training ends."""
    unit = config.task.unit
    label = f"loss ({config.task.loss_unit} per {unit.removesuffix('s')})"
    with contextlib.ExitStack() as stack:
        events = [stack.enter_context(Tensorboard(folder / "tensorboard"))] if tensorboard else []
        bar = stack.enter_context(TrainingBar(folder.name, config.train.steps, unit))
        try:
            train_run(config, folder, CallbackList(bar, *events), resume=resume, init=init)
        except BaseException:
            with contextlib.suppress(StorageError):  # report why training ended, not this
                _draw(folder, label, config.task.main_phase)
            raise
        _draw(folder, label, config.task.main_phase)


def _draw(folder: Path, label: str, phase: str | None) -> None:
    """The curves of the run's log; of a task with phases, those of its main phase: losses of one kind."""
    entries = [entry for entry in read_log(folder / LOG) if entry.get("phase", phase) == phase]
    if entries:
        commit_file(folder / "curves.png", plot_curves(entries, ylabel=label))
