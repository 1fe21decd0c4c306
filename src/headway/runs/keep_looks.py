"""Looks at one input at every evaluation of a training, in the folder `looks` of the run (`train.keep_looks`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import torch
from torch import nn

from headway.data.tokenizers import Tokenizer
from headway.data.unknown_tokens import uncounted
from headway.errors import ConfigError
from headway.inspection.page.kept_looks import explained, look_path, look_text, take_look
from headway.runs.config import RunConfig
from headway.storage.commit import commit_file
from headway.storage.disk import DISK
from headway.tasks.base import RunParts


class LookKeeper:
    """Writes a look of the config's input at each evaluation, and at steps 1, 2, 4, 8 … before and between them."""

    def __init__(self, config: RunConfig, tokenizers: Mapping[str, Tokenizer], folder: Path) -> None:
        """Raises ConfigError for a model without a page, and for settings with which looks cannot be taken."""
        if "look" not in config.task.pipeline_class().can(config.model):
            raise ConfigError("train.keep_looks is set, but this model has no attention to look at")
        if config.train.shard != "none":
            raise ConfigError(f"train.keep_looks with train.shard={config.train.shard}: no rank has the whole model")
        self._config, self._tokenizers, self._folder = config, tokenizers, folder

    def due(self, step: int) -> bool:
        """Whether a step is a power of two: most of what attention learns, it learns early."""
        return step & (step - 1) == 0

    @torch.no_grad()
    def __call__(self, model: nn.Module, step: int, loss: float | None, *, write: bool = True) -> None:
        """Keep a look; nothing of the training changes, neither its mode nor its random numbers."""
        device, trains = next(model.parameters()).device, model.training
        parts = RunParts(
            folder=self._folder, model=model, config=self._config.model, data=self._config.data,  # type: ignore[arg-type]
            tokenizers=self._tokenizers, device=device, steps=(step,), request=_not_here, newest=_not_here,
        )  # fmt: skip
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), torch.compiler.set_stance("force_eager"), uncounted():
            model.eval()
            try:
                explanation = explained(self._config.task.pipeline(parts), self._config.train.keep_looks)
                look = take_look(model, explanation, step, loss)
            finally:
                model.train(trains)
        if write:
            path = look_path(self._folder, step)
            DISK.make_parents(path.parent)
            commit_file(path, look_text(look))


def _not_here(*_: object) -> NoReturn:
    raise ConfigError("a look while training reads no data and no other checkpoint")
