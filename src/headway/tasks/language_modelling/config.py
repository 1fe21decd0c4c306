"""Language modelling: the next token of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.tasks.base import DataRequest, Pipeline, Prepared, Task
from headway.tasks.scheduled_sampling import ScheduledSampling

if TYPE_CHECKING:
    from headway.models import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Language(Task):
    """A text as one stream of tokens."""

    name: ClassVar[str] = "language"
    title: ClassVar[str] = "language model"

    context: int = 64  # targets in a block; a transformer's own context is the natural choice
    scheduled: ScheduledSampling | None = None  # none: teacher forcing, every input is a gold token

    def prepare(self, request: DataRequest) -> Prepared:
        """Read plain text, train a tokenizer if the run has none, encode."""
        from headway.tasks.language_modelling.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.language_modelling.pipeline import LanguagePipeline

        return LanguagePipeline

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary."""
        return ("vocab",)
