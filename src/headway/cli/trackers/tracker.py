"""The interface of trackers: a training's figures by name and step, begun with its first step."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from headway.errors import HeadwayError
from headway.storage.commit import commit_file
from headway.storage.targets import expect_no_links, storage_errors
from headway.training.callbacks import SilentCallback

RUN_ID = "headway-run-id"  # the name that a tracker has for the run, kept in its folder for a resumed training


class Tracker(SilentCallback, ABC):
    """A training callback that hands the figures of log.jsonl, and the samples, to another program.

    Notes go to the terminal only. Use as a context manager. `folder` is the tracker's own, inside the run. A disk that
    refuses a write is a StorageError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.begun = folder, False
        expect_no_links(folder, inside=folder.parent)

    @abstractmethod
    def begin(self, step: int) -> None:
        """Before the first step of this sitting: later steps than this one, if any were shown, will be done again."""

    @abstractmethod
    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Figures of a step."""

    @abstractmethod
    def show(self, samples: Sequence[str], step: int) -> None:
        """What the model wrote at an evaluation."""

    @abstractmethod
    def end(self, *, failed: bool) -> None:
        """After the last step, or an error; only if it was begun."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # An error that is on its way says more than the same disk refusing the last figures.
        quiet = contextlib.suppress(HeadwayError) if kind else contextlib.nullcontext()
        with quiet, storage_errors(self.folder):
            if self.begun:
                self.end(failed=kind is not None)

    def step(self, entry: dict[str, Any]) -> None:
        """Loss, rate, gradient norm and speed of a step."""
        with storage_errors(self.folder):
            if not self.begun:  # only now is it known at which step training goes on
                self.begin(entry["step"])
                self.begun = True
            speed = entry["tokens"] / max(entry["seconds"], 1e-4)  # the log rounds to a tenth of a millisecond
            figures = {name: entry[name] for name in ("loss", "learning_rate", "norm")}
            self.log({**figures, "tokens_per_second": speed}, entry["step"])

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """The figures of an evaluation, and the samples."""
        with storage_errors(self.folder):
            self.log({name: value for name, value in entry.items() if name.startswith("val_")}, entry["step"])
            self.show(samples, entry["step"])

    def settings(self) -> dict[str, Any]:
        """The config of the run by dotted key, which is on disk before the first step."""
        from headway.config import flat, plain
        from headway.runs import read_config

        return flat(plain(read_config(self.folder.parent)))

    def known_id(self, step: int) -> str | None:
        """The name that an earlier sitting of the run kept; None for a run that begins."""
        with contextlib.suppress(OSError, ValueError):
            return (self.folder / RUN_ID).read_text()[:100].strip() or None if step > 1 else None
        return None

    def keep_id(self, name: str) -> None:
        """Keep a name for the next sitting."""
        commit_file(self.folder / RUN_ID, name)
