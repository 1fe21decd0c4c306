"""A run from end to end: what it reads, what it learns, with what, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headway.config import Choice
from headway.data.config import DataConfig
from headway.models import ModelConfig
from headway.training.config import TrainConfig

if TYPE_CHECKING:
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

    TaskConfig: TypeAlias = (
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
else:  # a run has one of them, and waits for no other
    TaskConfig = Choice(
        {
            "Captioning": "headway.tasks.captioning",
            "Classification": "headway.tasks.classification",
            "Deciding": "headway.tasks.deciding",
            "Embedding": "headway.tasks.embedding",
            "Language": "headway.tasks.language",
            "Masked": "headway.tasks.masked",
            "PoseEstimation": "headway.tasks.pose",
            "TextClassification": "headway.tasks.text_classification",
            "Translation": "headway.tasks.translation",
            "WorldModel": "headway.tasks.world",
        }
    )

ONE = "tokenizer.json"  # where source and target share a vocabulary, or there is only one text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything `headway train` needs, and what it writes into the run's config.yaml."""

    task: TaskConfig
    data: DataConfig
    model: ModelConfig
    train: TrainConfig
