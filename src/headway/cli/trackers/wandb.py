"""Training as Weights & Biases shows it; offline, unless the user says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.cli.trackers.tracker import Tracker
from headway.errors import ConfigError, one_line
from headway.extras import import_extra

PROJECT = "headway"  # where WANDB_PROJECT does not name another


class Wandb(Tracker):
    """Writes into the run's folder and sends nothing, unless WANDB_MODE is set: then wandb does as it says."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # reports of its own errors go to a server
        self.module = import_extra("wandb", "wandb", "--wandb")
        self.run: Any = None

    def begin(self, step: int) -> None:
        known = self.known_id(step)
        try:
            self.run = self.module.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=self.folder.parent.name,
                dir=str(self.folder.parent),  # in which wandb makes its folder, `wandb`
                id=known,
                resume="allow" if known else None,
                mode=os.environ.get("WANDB_MODE", "offline"),
                config=self.settings(),
                settings=self.module.Settings(console="off", silent=True),
            )
        except self.module.Error as error:
            raise ConfigError(f"--wandb: {one_line(error)}; WANDB_MODE=offline works without an account") from error
        self.keep_id(self.run.id)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self.run.log(dict(figures), step=step)

    def show(self, samples: Sequence[str], step: int) -> None:
        table = self.module.Table(columns=["step", "sample"], data=[[step, sample] for sample in samples])
        self.run.log({"samples": table}, step=step)

    def end(self, *, failed: bool) -> None:
        self.run.finish(exit_code=1 if failed else 0)
