"""Checkpoints of a run: committed whole, verified before use, the newest sound one chosen."""

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

SMALL_FILES = 1024  # bytes: the facts and the manifest, about
Note = Callable[[str], None]


class Checkpoints:
    """The checkpoints folder of one run."""

    def __init__(self, run: Path, note: Note = lambda text: None) -> None:
        self.run, self.folder, self.note = run, run / "checkpoints", note

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step lives."""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, in order; not yet verified."""
        return sorted(int(path.name[5:]) for path in self.folder.glob("step-*") if path.name[5:].isdigit())

    def save(self, step: int, model: dict[str, Tensor], trainer: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Commit a checkpoint; one that is there already stays as it is."""
        if not self.path(step).exists():
            with commit_folder(self.path(step), needs=file_size(model) + file_size(trainer) + SMALL_FILES) as draft:
                draft.tensors("model.safetensors", model)
                draft.tensors("trainer.safetensors", trainer)
                draft.json("trainer.json", facts)
        self.mark_latest(step)

    def mark_latest(self, step: int) -> None:
        """Remember which checkpoint is the newest."""
        commit_file(self.run / "latest.json", json.dumps({"step": step}) + "\n")

    def prune(self, keep: int) -> None:
        """Drop the oldest checkpoints beyond `keep`; the best one always stays."""
        for old in self.steps()[:-keep]:
            if old != self.best():
                discard(self.path(old))

    def mark_best(self, step: int, score: float) -> None:
        """Remember which checkpoint is the best so far."""
        commit_file(self.run / "best.json", json.dumps({"step": step, "loss": score}) + "\n")

    def best(self) -> int | None:
        """The step of the best checkpoint, if one was marked."""
        try:
            return int(json.loads((self.run / "best.json").read_text())["step"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def newest_sound(self) -> int | None:
        """The newest checkpoint that verifies; damaged ones are set aside under another name, and said so."""
        for step in reversed(self.steps()):
            wrong = problems(self.path(step))
            if not wrong:
                return step
            aside = self.path(step).with_name(f"damaged-{self.path(step).name}")
            quarantine(self.path(step), aside)
            self.note(f"{self.path(step)} is damaged ({'; '.join(wrong)}); set aside as {aside.name}")
        return None

    def read(self, step: int) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
        """The model, the trainer's tensors and the trainer's facts of a verified checkpoint."""
        folder = self.path(step)
        facts = json.loads((folder / "trainer.json").read_text())
        return read_tensors(folder / "model.safetensors"), read_tensors(folder / "trainer.safetensors"), facts

    def weights(self, *, average: int = 0) -> tuple[dict[str, Tensor], list[int]]:
        """The weights to use: the mean of the last `average` checkpoints, else the best, else the newest sound one."""
        newest = self.newest_sound()
        if newest is None:
            raise NoRunError(f"{self.folder}: no checkpoint that verifies")
        steps = [step for step in self.steps() if not average or not problems(self.path(step))]
        chosen = self._chosen(steps, average)
        models = [read_tensors(self.path(step) / "model.safetensors") for step in chosen]
        return mean_of(models), chosen

    def key(self, *, average: int = 0) -> tuple[list[int], str]:
        """The steps `weights` would take were all of them sound, and a digest of what their manifests say."""
        chosen = self._chosen(self.steps(), average) if self.steps() else []
        try:
            texts = [(self.path(step) / MANIFEST).read_bytes() for step in chosen]
        except OSError:
            return chosen, ""
        return chosen, hashlib.sha256(b"".join(texts)).hexdigest()

    def _chosen(self, steps: list[int], average: int) -> list[int]:
        best = self.best()
        return steps[-average:] if average else [best if best is not None and best in steps else steps[-1]]


def mean_of(models: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights, tensor by tensor, in float64: the mean of equal models is that model."""
    if len(models) == 1:
        return models[0]
    return {
        name: torch.stack([model[name].double() for model in models]).mean(0).to(tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in models[0].items()
    }
