"""Training with what a user sees of it: a bar on stderr, event files, and the curves at the end."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headway.cli.progress import Everyone, TrainingBar
from headway.cli.tensorboard import Tensorboard
from headway.errors import StorageError
from headway.plots.curves import plot_curves
from headway.runs import train_run
from headway.runs.config import RunConfig
from headway.storage.commit import commit_file
from headway.tasks.decision_transformer.training import Deciding
from headway.tasks.image_classification.training import Classification
from headway.tasks.pose.training import PoseEstimation
from headway.tasks.text_classification.training import TextClassification
from headway.tasks.world_model.training import WorldModel
from headway.training.trainer import LOG, read_log

DRAWN = ("world", "decide")  # of a task's phases, those whose loss is drawn
UNITS: dict[type, str] = {
    Classification: "images",
    PoseEstimation: "images",
    TextClassification: "texts",
    WorldModel: "steps",
    Deciding: "steps",
}


def train_and_draw(
    config: RunConfig, folder: Path, *, resume: bool, tensorboard: bool = False, init: Path | None = None
) -> None:
    """Train into a folder with a bar on stderr; the curves are drawn however training ends."""
    unit = UNITS.get(type(config.task), "tokens")
    what = "squared error" if isinstance(config.task, PoseEstimation) else "nats"
    label = f"loss ({what} per {unit.removesuffix('s')})"
    with contextlib.ExitStack() as stack:
        events = [stack.enter_context(Tensorboard(folder / "tensorboard"))] if tensorboard else []
        bar = stack.enter_context(TrainingBar(folder.name, config.train.steps, unit))
        try:
            train_run(config, folder, Everyone(bar, *events), resume=resume, init=init)
        except BaseException:
            with contextlib.suppress(StorageError):  # the reason why training ended is what must be reported
                _draw(folder, label)
            raise
        _draw(folder, label)


def _draw(folder: Path, label: str) -> None:
    entries = read_log(folder / LOG)
    learned = next((entry["phase"] for entry in entries if entry.get("phase") in DRAWN), None)
    entries = [entry for entry in entries if entry.get("phase", learned) == learned]  # losses of one kind
    if entries:
        commit_file(folder / "curves.png", plot_curves(entries, ylabel=label))
