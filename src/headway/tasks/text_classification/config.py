"""Text classification: whole texts, a class each, judged by how many are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.config import positive
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClassification(Task):
    """Texts with a class each; one that is too long is cut."""

    name: ClassVar[str] = "text-classification"
    title: ClassVar[str] = "text classifier"
    unit: ClassVar[str] = "texts"
    length_key: ClassVar[str] = "length"
    special_tokens: ClassVar[tuple[str, ...]] = ("pad", "start", "stop")

    length: int = 512  # tokens, the special ones included

    def __post_init__(self) -> None:
        positive("task.length", self.length, least=3)

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.text_classification.recognise import recognise

        return recognise(spec, given)

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """The columns of a table."""
        from headway.tasks.text_classification.recognise import reading

        return reading(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read texts with their classes, train a tokenizer if the run has none, encode."""
        from headway.tasks.text_classification.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.text_classification.pipeline import TextClassificationPipeline

        return TextClassificationPipeline

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary and the classes."""
        return ("classes",) if model.text is None else (model.text.vocab_key, "classes")
