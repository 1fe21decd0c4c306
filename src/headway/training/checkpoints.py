"""Checkpoints of a run: committed atomically, verified by checksum before use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.errors import NoRunError
from headway.storage.commit import commit_file, commit_folder, discard, quarantine
from headway.storage.manifest import MANIFEST, problems
from headway.storage.tensors import file_size, read_tensors

SMALL_FILES = 1024  # bytes: estimate for trainer.json and the manifest
Note = Callable[[str], None]


class Checkpoints:
    """The checkpoints folder of one run."""

    def __init__(self, run: Path, note: Note = lambda text: None) -> None:
        self.run, self.folder, self.note = run, run / "checkpoints", note

    def path(self, step: int) -> Path:
        """The folder of a step's checkpoint."""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order; not verified."""
        return sorted(int(path.name[5:]) for path in self.folder.glob("step-*") if path.name[5:].isdigit())

    def save(self, step: int, model: dict[str, Tensor], trainer: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Commit a checkpoint, unless the step already has one. Raises StorageError."""
        if not self.path(step).exists():
            with commit_folder(self.path(step), needs=file_size(model) + file_size(trainer) + SMALL_FILES) as draft:
                draft.tensors("model.safetensors", model)
                draft.tensors("trainer.safetensors", trainer)
                draft.json("trainer.json", facts)
        self.mark_latest(step)

    def mark_latest(self, step: int) -> None:
        """Write latest.json."""
        commit_file(self.run / "latest.json", json.dumps({"step": step}) + "\n")

    def prune(self, keep: int) -> None:
        """Remove all but the newest `keep` checkpoints and the best one."""
        for old in self.steps()[:-keep]:
            if old != self.best():
                discard(self.path(old))

    def mark_best(self, step: int, score: float) -> None:
        """Write best.json."""
        commit_file(self.run / "best.json", json.dumps({"step": step, "loss": score}) + "\n")

    def best(self) -> int | None:
        """The step of the best checkpoint, if one was marked."""
        try:
            return int(json.loads((self.run / "best.json").read_text())["step"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def newest_valid(self) -> int | None:
        """The newest checkpoint whose checksums verify; damaged ones are renamed to damaged-… and noted."""
        for step in reversed(self.steps()):
            wrong = problems(self.path(step))
            if not wrong:
                return step
            aside = self.path(step).with_name(f"damaged-{self.path(step).name}")
            quarantine(self.path(step), aside)
            self.note(f"{self.path(step)} is damaged ({'; '.join(wrong)}); renamed to {aside.name}")
        return None

    def read(self, step: int) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
        """The model, the trainer's tensors and the content of trainer.json of a verified checkpoint."""
        folder = self.path(step)
        facts = json.loads((folder / "trainer.json").read_text())
        return read_tensors(folder / "model.safetensors"), read_tensors(folder / "trainer.safetensors"), facts

    def weights(self, *, average: int = 0) -> tuple[dict[str, Tensor], list[int]]:
        """The mean of the last `average` checkpoints, else the best, else the newest valid one. Raises NoRunError."""
        newest = self.newest_valid()
        if newest is None:
            raise NoRunError(f"{self.folder}: no checkpoint that verifies")
        steps = [step for step in self.steps() if not average or not problems(self.path(step))]
        chosen = self._chosen(steps, average)
        models = [read_tensors(self.path(step) / "model.safetensors") for step in chosen]
        return average_weights(models), chosen

    def key(self, *, average: int = 0) -> tuple[list[int], str]:
        """The steps that `weights` would use if all are valid, and a digest of their manifests."""
        chosen = self._chosen(self.steps(), average) if self.steps() else []
        try:
            texts = [(self.path(step) / MANIFEST).read_bytes() for step in chosen]
        except OSError:
            return chosen, ""
        return chosen, hashlib.sha256(b"".join(texts)).hexdigest()

    def _chosen(self, steps: list[int], average: int) -> list[int]:
        best = self.best()
        return steps[-average:] if average else [best if best is not None and best in steps else steps[-1]]


def average_weights(models: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights, tensor by tensor, in float64, so that the mean of equal models is exact."""
    if len(models) == 1:
        return models[0]
    return {
        name: torch.stack([model[name].double() for model in models]).mean(0).to(tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in models[0].items()
    }
