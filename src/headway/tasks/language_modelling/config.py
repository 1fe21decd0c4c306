"""Language modelling: the next token of a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.config import positive
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task
from headway.tasks.scheduled_sampling import ScheduledSampling

if TYPE_CHECKING:
    from headway.data.chat_template import AnyTemplate
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal, Reading
    from headway.tasks.training_task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Language(Task):
    """A text as one stream of tokens."""

    name: ClassVar[str] = "language"
    title: ClassVar[str] = "language model"
    length_key: ClassVar[str] = "context"

    context: int = 64  # targets in a block; a transformer's own context is the natural choice
    scheduled: ScheduledSampling | None = None  # none: teacher forcing, every input is a gold token

    def __post_init__(self) -> None:
        positive("task.context", self.context)

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.language_modelling.recognise import recognise

        return recognise(spec, given)

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """The columns of a table."""
        from headway.tasks.language_modelling.recognise import reading

        return reading(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read plain text, train a tokenizer if the run has none, encode."""
        from headway.tasks.language_modelling.data import prepare

        return prepare(self, request)

    def stand_in(self, request: DataRequest) -> TrainingTask:
        """A text of one token."""
        from headway.tasks.language_modelling.data import stand_in

        return stand_in(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.language_modelling.pipeline import LanguagePipeline

        return LanguagePipeline

    def implied(self, model: ModelConfig, changes: Mapping[str, object]) -> dict[str, object]:
        """Blocks are not longer than a context that is made shorter."""
        context = str(changes.get("model.context", ""))
        shorter = context.isdecimal() and int(context) < self.context
        return {"task.context": changes["model.context"]} if shorter and "task.context" not in changes else {}

    def with_template(self, template: AnyTemplate) -> Task:
        """A chat model."""
        from headway.tasks.chat.config import Chat

        return Chat(context=self.context, template=template)

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary."""
        return ("vocab",)
