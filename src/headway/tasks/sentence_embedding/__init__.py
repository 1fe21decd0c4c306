"""Sentence embedding, by imported encoders."""

from headway.tasks.sentence_embedding.config import Embedding

__all__ = ["Embedding"]
