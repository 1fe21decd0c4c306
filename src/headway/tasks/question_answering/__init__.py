"""Question answering: a span of a context, exact match, F1."""

from headway.tasks.question_answering.config import QuestionAnswering

__all__ = ["QuestionAnswering"]
