"""Training as TensorBoard shows it: event files in the run's folder."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from headway.cli.trackers.tracker import Tracker
from headway.extras import import_extra

FLUSH = 5  # seconds until events are on disk: a kill may lose this much, which log.jsonl still has


class Tensorboard(Tracker):
    """Event files; steps that are done again replace those shown before."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.writer: Any = None
        self.module = import_extra("torch.utils.tensorboard", "tensorboard", "--tensorboard")

    def __enter__(self) -> Self:
        self.hook, threading.excepthook = threading.excepthook, _not_twice
        return self

    def __exit__(self, kind: object, *others: object) -> None:
        try:
            super().__exit__(kind, *others)
        finally:
            threading.excepthook = self.hook

    def begin(self, step: int) -> None:
        self.writer = self.module.SummaryWriter(self.folder, purge_step=step, flush_secs=FLUSH)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)

    def show(self, samples: Sequence[str], step: int) -> None:
        """Each sample as a code block: a model's words are no markdown."""
        text = "\n\n".join("    " + sample.replace("\n", "\n    ") for sample in samples)
        self.writer.add_text("samples", text, step)
        self.writer.flush()

    def end(self, *, failed: bool) -> None:
        self.writer.close()


def _not_twice(met: threading.ExceptHookArgs) -> None:
    """The thread that writes events hands its error to the next call: its own traceback would only come first."""
    if not isinstance(met.exc_value, OSError):
        threading.__excepthook__(met)
