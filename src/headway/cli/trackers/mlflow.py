"""Training as MLflow shows it: in the run's folder, unless the user names a tracking server."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.cli.trackers.tracker import Tracker
from headway.errors import ConfigError, one_line
from headway.extras import import_extra

EXPERIMENT = "headway"  # where MLFLOW_EXPERIMENT_NAME does not name another
FLUSH = 5  # seconds until figures are handed on: a kill may lose this much, which log.jsonl still has
MAX_FIGURES, MAX_SETTINGS, MAX_VALUE = 1000, 100, 500  # of one call; characters of a setting


class Mlflow(Tracker):
    """Writes into the run's folder, unless MLFLOW_TRACKING_URI is set: then to where it says."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # else its import tells a server
        self.module = import_extra("mlflow", "mlflow", "--mlflow")
        self.client: Any = None
        self.run = ""
        self.waiting: list[Any] = []
        self.sent = time.monotonic()

    def begin(self, step: int) -> None:
        chosen = os.environ.get("MLFLOW_TRACKING_URI")
        if chosen is None:  # MLflow warns that files are for one machine, which is what this is
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = self.folder.absolute().as_uri() if chosen is None else chosen
        try:
            self.client = self.module.MlflowClient(tracking_uri=uri)
            self.run = self.known_id(step) or self._new_run()
            self.client.update_run(self.run, status="RUNNING")
        except self.module.exceptions.MlflowException as error:
            raise ConfigError(f"--mlflow: {uri}: {one_line(error)}") from error
        self.keep_id(self.run)

    def _new_run(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        found = self.client.get_experiment_by_name(name)
        experiment = self.client.create_experiment(name) if found is None else found.experiment_id
        made = self.client.create_run(experiment, run_name=self.folder.parent.name)
        settings = [self.module.entities.Param(key, str(value)[:MAX_VALUE]) for key, value in self.settings().items()]
        for begin in range(0, len(settings), MAX_SETTINGS):
            self.client.log_batch(made.info.run_id, params=settings[begin : begin + MAX_SETTINGS])
        return str(made.info.run_id)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        self.waiting += [self.module.entities.Metric(name, value, now, step) for name, value in figures.items()]
        if time.monotonic() - self.sent > FLUSH or len(self.waiting) > MAX_FIGURES // 2:
            self._send()

    def show(self, samples: Sequence[str], step: int) -> None:
        self._send()
        self.client.log_text(self.run, "\n\n".join(samples) + "\n", f"samples/step-{step:08d}.txt")

    def end(self, *, failed: bool) -> None:
        self._send()
        self.client.set_terminated(self.run, status="FAILED" if failed else "FINISHED")

    def _send(self) -> None:
        waiting, self.waiting, self.sent = self.waiting, [], time.monotonic()
        if waiting:
            self.client.log_batch(self.run, metrics=waiting)
