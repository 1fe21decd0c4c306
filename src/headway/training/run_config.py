"""A run from end to end: what it reads, what it learns, with what, and how."""

from __future__ import annotations

from dataclasses import dataclass

from headway.data.config import DataConfig
from headway.models import ModelConfig
from headway.tasks.captioning import Captioning
from headway.tasks.classification import Classification
from headway.tasks.deciding import Deciding
from headway.tasks.embedding import Embedding
from headway.tasks.language import Language
from headway.tasks.masked import Masked
from headway.tasks.pose import PoseEstimation
from headway.tasks.text_classification import TextClassification
from headway.tasks.translation import Translation
from headway.tasks.world import WorldModel
from headway.training.config import TrainConfig

TaskConfig = (
    Language
    | Masked
    | Translation
    | Classification
    | TextClassification
    | Captioning
    | Embedding
    | PoseEstimation
    | WorldModel
    | Deciding
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything `headway train` needs, and what it writes into the run's config.yaml."""

    task: TaskConfig
    data: DataConfig
    model: ModelConfig
    train: TrainConfig
