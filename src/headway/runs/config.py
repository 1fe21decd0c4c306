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
            "captioning": "headway.tasks.captioning.training:Captioning",
            "classification": "headway.tasks.image_classification.training:Classification",
            "deciding": "headway.tasks.decision_transformer.training:Deciding",
            "embedding": "headway.tasks.sentence_embedding.embed:Embedding",
            "language": "headway.tasks.language_modelling.training:Language",
            "masked": "headway.tasks.masked_lm.training:Masked",
            "pose-estimation": "headway.tasks.pose.training:PoseEstimation",
            "text-classification": "headway.tasks.text_classification.training:TextClassification",
            "translation": "headway.tasks.translation.training:Translation",
            "world-model": "headway.tasks.world_model.training:WorldModel",
        },
        group="headway.tasks",
    )

ONE = "tokenizer.json"  # where source and target share a vocabulary, or there is only one text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything `headway train` needs, and what it writes into the run's config.yaml."""

    task: TaskConfig  # what the run learns to do
    data: DataConfig  # what it reads, and how text becomes tokens
    model: ModelConfig  # the model, with its sizes and parts
    train: TrainConfig  # how it is trained
