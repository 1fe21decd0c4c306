"""Question answering: the answer to a question is a span of a context, or the context does not answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headway.config import positive
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from torch import nn

    from headway.data.config import DataConfig
    from headway.models import ModelConfig
    from headway.tasks.initial_weights import FinetuneSource, InitialWeights
    from headway.tasks.proposal import Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswering(Task):
    """Question and context in one input; each token's score as the start and as the end (Devlin et al. 2019, 4.2)."""

    name: ClassVar[str] = "question-answering"
    title: ClassVar[str] = "question answerer"
    unit: ClassVar[str] = "questions"
    length_key: ClassVar[str] = "length"
    special_tokens: ClassVar[tuple[str, ...]] = ("pad", "start", "stop")
    models: ClassVar[tuple[str, ...]] = ("token-classifier",)
    size_limits: ClassVar[dict[str, str]] = {"stride": "context", "question": "context", "answer": "context"}

    length: int = 384  # tokens of an input, the special ones included; a longer context is read in windows
    stride: int = 128  # tokens from the start of one window of a context to that of the next
    question: int = 64  # most tokens of a question; the rest is cut
    answer: int = 30  # most tokens of an answer

    def __post_init__(self) -> None:
        for name in ("length", "stride", "question", "answer"):
            positive(f"task.{name}", getattr(self, name))
        if self.length < self.question + 4:
            raise ConfigError(
                f"task.length={self.length} with task.question={self.question}, allowed: at least "
                f"{self.question + 4}, for a question, three special tokens and a context"
            )

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.question_answering.recognise import recognise

        return recognise(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read questions with contexts and answers, train a tokenizer if the run has none, encode."""
        from headway.tasks.question_answering.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.question_answering.pipeline import QuestionAnsweringPipeline

        return QuestionAnsweringPipeline

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model without two outputs a token, or with fewer positions than an input's tokens."""
        Task.check_model(self, model)
        self.expect_positions(model)
        if (outputs := getattr(model, "classes", 2)) != 2:
            raise ConfigError(f"model.classes={outputs}, allowed for a question answerer: 2, the start and the end")

    def finetuned(
        self, model: ModelConfig, source: Task, source_model: ModelConfig, folder: str
    ) -> tuple[Task, ModelConfig]:
        """Task and model; the model of a tagger, which is of the same kind, gets two outputs a token."""
        task, found = Task.finetuned(self, model, source, source_model, folder)
        outputs: Any = found
        return task, replace(outputs, classes=2)

    def initial_weights(
        self, model: nn.Module, config: ModelConfig, data: DataConfig, source: FinetuneSource
    ) -> InitialWeights:
        """The weights; start and end are the same outputs whether or not some questions have no answer."""
        if type(source.task) is type(self):
            source = replace(source, data=replace(source.data, classes=data.classes))
        return Task.initial_weights(self, model, config, data, source)

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary."""
        return () if model.text is None else (model.text.vocab_key,)
