"""Pipelines of models that were built here, without a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from headway.data.config import DataConfig
from headway.data.tokenizers import Tokenizer
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Pipeline, Prepared, RunParts, Task


def pipeline_of(
    task: Task,
    model: torch.nn.Module,
    tokenizer: Tokenizer | Mapping[str, Tokenizer] | None = None,
    *,
    config: Any = None,
    classes: tuple[str, ...] = (),
    folder: str = "runs/tiny",
    steps: tuple[int, ...] = (),
) -> Pipeline:
    """A task's pipeline with this model, as a run of that folder would have it."""

    def unavailable(*_: object) -> Any:
        raise AssertionError("this pipeline has neither data nor checkpoints")

    tokenizers = {ONE_TOKENIZER: tokenizer} if isinstance(tokenizer, Tokenizer) else dict(tokenizer or {})
    parts = RunParts(
        folder=Path(folder),
        model=model.eval(),
        config=config,
        data=DataConfig(classes=classes),
        tokenizers=tokenizers,
        device=torch.device("cpu"),
        steps=steps,
        request=unavailable,
        newest=unavailable,
    )
    return task.pipeline(parts)


def prepared(
    task: Task, data: DataConfig, model: Any = None, *, batch_tokens: int = 100, seed: int = 0, **more: Any
) -> Prepared:
    """A task's data, as training into a folder would read it."""
    folder = more.pop("folder", Path("runs/tiny"))
    request = DataRequest(data=data, model=model, folder=folder, batch_tokens=batch_tokens, seed=seed, **more)
    return task.prepare(request)
