"""Text classification: texts with a class each, accuracy, confusion."""

from headway.tasks.text_classification.config import TextClassification

__all__ = ["TextClassification"]
