"""Multiple choice: a context or a question, and texts of which one is the right answer or continuation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headway.config import positive
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipleChoice(Task):
    """An input for each choice, whose pooled vector gives one score; softmax over choices (Devlin et al. 2019, 4.4)."""

    name: ClassVar[str] = "multiple-choice"
    title: ClassVar[str] = "multiple-choice answerer"
    unit: ClassVar[str] = "questions"
    length_key: ClassVar[str] = "length"
    special_tokens: ClassVar[tuple[str, ...]] = ("pad", "start", "stop")
    models: ClassVar[tuple[str, ...]] = ("text-classifier",)

    length: int = 128  # tokens of an input, the special ones included; of what is longer the context is cut

    def __post_init__(self) -> None:
        positive("task.length", self.length, least=5)

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.multiple_choice.recognise import recognise

        return recognise(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read questions with choices, train a tokenizer if the run has none, encode."""
        from headway.tasks.multiple_choice.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.multiple_choice.pipeline import MultipleChoicePipeline

        return MultipleChoicePipeline

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model with other than one output, or fewer positions than an input's tokens."""
        Task.check_model(self, model)
        self.expect_positions(model)
        if (outputs := getattr(model, "classes", 1)) != 1:
            raise ConfigError(f"model.classes={outputs}, allowed for a {self.title}: 1, the score of a choice")

    def finetuned(
        self, model: ModelConfig, source: Task, source_model: ModelConfig, folder: str
    ) -> tuple[Task, ModelConfig]:
        """Task and model; the model of a text classifier, which is of the same kind, gets one plain output."""
        task, found = Task.finetuned(self, model, source, source_model, folder)
        one: Any = found
        return task, replace(one, classes=1, centre=0.0, scale=1.0)

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary."""
        return () if model.text is None else (model.text.vocab_key,)
