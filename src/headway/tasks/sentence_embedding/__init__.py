"""Sentence embedding: one vector a text, by imported encoders or by those trained on pairs of texts."""

from headway.tasks.sentence_embedding.config import Embedding

__all__ = ["Embedding"]
