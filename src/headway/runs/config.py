"""The config of a run: its task, data, model and training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.data.config import DataConfig
from headway.models import ModelConfig
from headway.training.config import TrainConfig

if TYPE_CHECKING:
    from headway.tasks.base import Task as TaskConfig
else:  # a run has one of them, and waits for no other
    from headway.tasks.registry import TASKS

    TaskConfig = TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything `headway train` needs, and what it writes into the run's config.yaml."""

    task: TaskConfig  # what the run learns to do
    data: DataConfig  # what it reads, and how text becomes tokens
    model: ModelConfig  # the model, with its sizes and parts
    train: TrainConfig  # how it is trained
