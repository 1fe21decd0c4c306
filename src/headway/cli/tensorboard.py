"""Training as TensorBoard shows it: the same figures as log.jsonl, and the samples."""

from __future__ import annotations

import contextlib
import importlib
import threading
from pathlib import Path
from typing import Any

from headway.errors import ConfigError, StorageError
from headway.storage.commit import storage_errors

FLUSH = 5  # seconds until events are on disk: a kill may lose this much, which log.jsonl still has


class Tensorboard:
    """A watcher that writes event files into a folder. Use as a context manager.

    Raises ConfigError at once where the package is missing, StorageError when the disk will not take an event.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer: Any = None
        try:
            self.module: Any = importlib.import_module("torch.utils.tensorboard")
        except ImportError:
            raise ConfigError("--tensorboard needs a package that pip install 'headway[tensorboard]' brings") from None

    def __enter__(self) -> Tensorboard:
        self.hook, threading.excepthook = threading.excepthook, _not_twice
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # An error that is on its way says more than the same disk refusing the last events.
        quiet = contextlib.suppress(StorageError) if kind else contextlib.nullcontext()
        try:
            with quiet, storage_errors(self.folder):
                if self.writer is not None:
                    self.writer.close()
        finally:
            threading.excepthook = self.hook

    def step(self, entry: dict[str, Any]) -> None:
        """Loss, rate, gradient norm and speed of a step."""
        with storage_errors(self.folder):
            if self.writer is None:  # only now is it known where the run goes on; later steps will be done again
                self.writer = self.module.SummaryWriter(self.folder, purge_step=entry["step"], flush_secs=FLUSH)
            for name in ("loss", "learning_rate", "norm"):
                self.writer.add_scalar(name, entry[name], entry["step"])
            speed = entry["tokens"] / max(entry["seconds"], 1e-4)  # the log rounds to a tenth of a millisecond
            self.writer.add_scalar("tokens_per_second", speed, entry["step"])

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """Validation loss, and the samples as text, a code block each: a model's words are no markdown."""
        assert self.writer is not None, "an evaluation comes after a step"
        with storage_errors(self.folder):
            for name in (name for name in entry if name.startswith("val_")):
                self.writer.add_scalar(name, entry[name], entry["step"])
            text = "\n\n".join("    " + sample.replace("\n", "\n    ") for sample in samples)
            self.writer.add_text("samples", text, entry["step"])
            self.writer.flush()

    def note(self, text: str) -> None:
        """Notes go to the terminal only."""

    def preparing(self, what: str, done: int, total: int) -> None:
        """Nor is how far the data is."""


def _not_twice(met: threading.ExceptHookArgs) -> None:
    """The thread that writes events hands its error to the next call: its own traceback would only come first."""
    if not isinstance(met.exc_value, OSError):
        threading.__excepthook__(met)
