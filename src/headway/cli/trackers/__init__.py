"""Programs that show trainings beside each other, each an option of `headway train` and an extra of its name.

A tracker is a module of this package with a class of `CLASSES`, which gets a folder of its own inside the run.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from headway.cli.trackers.tracker import Tracker

CLASSES = {"tensorboard": "Tensorboard", "wandb": "Wandb", "mlflow": "Mlflow"}


def tracker(name: str, run: Path) -> Tracker:
    """The tracker of this name for a run. Raises ConfigError if its package is missing, StorageError for a link."""
    module = import_module(f"headway.cli.trackers.{name}")
    return cast(Tracker, getattr(module, CLASSES[name])(run / name))
