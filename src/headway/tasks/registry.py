"""The tasks there are: the only list of them. Installed packages add theirs by entry points of `headway.tasks`."""

from __future__ import annotations

from headway.config import Choice

TASKS = Choice(
    {
        "language": "headway.tasks.language_modelling:Language",
        "chat": "headway.tasks.chat:Chat",
        "masked": "headway.tasks.masked_lm:Masked",
        "translation": "headway.tasks.translation:Translation",
        "classification": "headway.tasks.image_classification:Classification",
        "text-classification": "headway.tasks.text_classification:TextClassification",
        "tagging": "headway.tasks.tagging:Tagging",
        "question-answering": "headway.tasks.question_answering:QuestionAnswering",
        "multiple-choice": "headway.tasks.multiple_choice:MultipleChoice",
        "vectors": "headway.tasks.vectors:Vectors",
        "captioning": "headway.tasks.captioning:Captioning",
        "transcription": "headway.tasks.transcription:Transcription",
        "embedding": "headway.tasks.sentence_embedding:Embedding",
        "pose": "headway.tasks.pose:PoseEstimation",
        "detection": "headway.tasks.detection:Detection",
        "world": "headway.tasks.world_model:WorldModel",
        "deciding": "headway.tasks.decision_transformer:Deciding",
    },
    aliases={"pose-estimation": "pose", "world-model": "world", "text-to-text": "translation"},
    group="headway.tasks",
)
