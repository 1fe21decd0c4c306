"""Sentence embedding: one vector a text, from the vectors an encoder gives its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.config import positive
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

Pooling = Literal["mean", "cls", "max"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Task):
    """How token vectors become the vector of a text; longer texts are cut."""

    name: ClassVar[str] = "embedding"
    title: ClassVar[str] = "sentence encoder"

    pooling: Pooling = "mean"  # over the real tokens; or the first token's vector, or the largest of each number
    normalise: bool = False  # to length 1
    max_length: int = 512  # tokens, the special ones included

    def __post_init__(self) -> None:
        positive("task.max_length", self.max_length, least=3)

    def prepare(self, request: DataRequest) -> Prepared:
        """Raise ConfigError: sentence encoders are imported."""
        raise ConfigError("task=embedding is what an imported encoder does: it is not trained here")

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.sentence_embedding.pipeline import EmbeddingPipeline

        return EmbeddingPipeline
