"""Sentence embedding: one vector a text, from the vectors an encoder gives its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headway.config import positive
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal, Reading

Pooling = Literal["mean", "cls", "max"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Task):
    """How token vectors become the vector of a text, longer texts being cut, and how pairs of texts are trained on."""

    name: ClassVar[str] = "embedding"
    title: ClassVar[str] = "sentence encoder"
    unit: ClassVar[str] = "pairs"
    batch_unit: ClassVar[str] = "pairs"
    models: ClassVar[tuple[str, ...]] = ("bert", "longformer")
    # What a run that begins with another one's weights (--init) takes over, cuts to the model, and needs.
    from_source: ClassVar[tuple[str, ...]] = ("pooling", "normalise")
    length_key: ClassVar[str] = "max_length"
    special_tokens: ClassVar[tuple[str, ...]] = ("start", "stop")

    pooling: Pooling = "mean"  # over the real tokens; or the first token's vector, or the largest of each number
    normalise: bool = False  # to length 1
    max_length: int = 512  # tokens, the special ones included
    # training: the second text of each pair; or the same text again under another dropout mask, for plain text (SimCSE)
    positives: Literal["pairs", "dropout"] = "pairs"
    negative: str = ""  # training, of a table: the column with a text that does not belong to each pair; "": none
    scale: float = 20.0  # training: what cosine similarities are multiplied by, the inverse of the temperature
    symmetric: bool = False  # training: also the right first text for each second one

    def __post_init__(self) -> None:
        positive("task.max_length", self.max_length, least=3)
        if not 0 < self.scale < float("inf"):
            raise ConfigError(f"task.scale={self.scale}, allowed: above 0")
        if self.negative and self.positives == "dropout":
            raise ConfigError(f"task.negative={self.negative} is for pairs, allowed with task.positives=dropout: none")

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.sentence_embedding.recognise import recognise

        return recognise(spec, given)

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """The columns of a table."""
        from headway.tasks.sentence_embedding.recognise import reading

        return reading(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read pairs of texts or plain text, train a tokenizer if the run has none, encode."""
        from headway.tasks.sentence_embedding.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.sentence_embedding.pipeline import EmbeddingPipeline

        return EmbeddingPipeline

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model without token vectors, without dropout where that makes the pairs, or shorter
        than the texts.
        """
        super(Embedding, self).check_model(model)
        self.expect_positions(model)
        if self.positives == "dropout" and not getattr(model, "dropout", 0.0):
            raise ConfigError("task.positives=dropout needs a model.dropout above 0: it makes the two views differ")

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary."""
        return () if model.text is None else (model.text.vocab_key,)
