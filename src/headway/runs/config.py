"""A run from end to end: what it reads, what it learns, with what, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headway.config import Choice
from headway.data.config import DataConfig
from headway.models import ModelConfig
from headway.training.config import TrainConfig

if TYPE_CHECKING:
    from headway.tasks.captioning.training import Captioning
    from headway.tasks.image_classification.training import Classification
    from headway.tasks.decision_transformer.training import Deciding
    from headway.tasks.sentence_embedding.embed import Embedding
    from headway.tasks.language_modelling.training import Language
    from headway.tasks.masked_lm.training import Masked
    from headway.tasks.pose.training import PoseEstimation
    from headway.tasks.text_classification.training import TextClassification
    from headway.tasks.translation.training import Translation
    from headway.tasks.world_model.training import WorldModel

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
            "Captioning": "headway.tasks.captioning.training",
            "Classification": "headway.tasks.image_classification.training",
            "Deciding": "headway.tasks.decision_transformer.training",
            "Embedding": "headway.tasks.sentence_embedding.embed",
            "Language": "headway.tasks.language_modelling.training",
            "Masked": "headway.tasks.masked_lm.training",
            "PoseEstimation": "headway.tasks.pose.training",
            "TextClassification": "headway.tasks.text_classification.training",
            "Translation": "headway.tasks.translation.training",
            "WorldModel": "headway.tasks.world_model.training",
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
