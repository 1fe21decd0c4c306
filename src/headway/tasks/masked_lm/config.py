"""Masked language modelling: predict hidden tokens from both sides and, as BERT, whether a text follows another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Reading
    from headway.tasks.training_task import TrainingTask


@runtime_checkable
class MaskedModelConfig(Protocol):
    """The config of a model that predicts hidden tokens."""

    def check_rows(self, rows: str) -> None:
        """Raise ConfigError for rows ("pairs" or "running") that its heads cannot be trained on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked(Task):
    """How a text becomes rows, and how much of them is hidden."""

    name: ClassVar[str] = "masked"
    title: ClassVar[str] = "masked model"
    length_key: ClassVar[str] = "length"
    from_source: ClassVar[tuple[str, ...]] = ("rows",)
    special_tokens: ClassVar[tuple[str, ...]] = ("pad", "start", "stop", "mask")

    length: int = 128  # tokens in a row, the special ones included
    rows: Literal["pairs", "running"] = "pairs"  # two texts, of which one may follow the other; or one, as RoBERTa's
    mask: float = 0.15  # share of a row's tokens to be guessed, rounded, at least one
    hidden: float = 0.8  # of those: shown as `<mask>`
    replaced: float = 0.1  # of those: shown as a random token; the rest are shown as they are
    documents: Literal["paragraphs", "files"] = "paragraphs"  # does a blank line end a document, or only a file's end?

    def __post_init__(self) -> None:
        if self.length < 5:
            raise ConfigError(
                f"task.length={self.length}, allowed: 5 and above (two sentences and three special tokens)"
            )
        if not 0 < self.mask < 1:
            raise ConfigError(f"task.mask={self.mask}, allowed: above 0 and below 1")
        if min(self.hidden, self.replaced) < 0 or self.hidden + self.replaced > 1:
            given = f"task.hidden={self.hidden}, task.replaced={self.replaced}"
            raise ConfigError(f"{given}, allowed: 0 and above, together at most 1")

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """The columns of a table."""
        from headway.tasks.language_modelling.recognise import reading

        return reading(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read plain text as sentences, train a tokenizer if the run has none, encode."""
        from headway.tasks.masked_lm.data import prepare

        return prepare(self, request)

    def stand_in(self, request: DataRequest) -> TrainingTask:
        """Sentences of one length."""
        from headway.tasks.masked_lm.data import stand_in

        return stand_in(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.masked_lm.pipeline import MaskedPipeline

        return MaskedPipeline

    def finetuned(
        self, model: ModelConfig, source: Task, source_model: ModelConfig, folder: str
    ) -> tuple[Task, ModelConfig]:
        """As every task; a model that cannot tell two texts apart reads running text."""
        task, found = Task.finetuned(self, model, source, source_model, folder)
        assert isinstance(task, Masked)
        alone = found.text is not None and found.text.segments < 2
        return (replace(task, rows="running") if alone else task), found

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model that cannot be trained on such rows."""
        if not isinstance(model, MaskedModelConfig):
            raise ConfigError(f"a masked task with a {type(model).__name__}, allowed: a masked BERT or Longformer")
        model.check_rows(self.rows)

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary."""
        return () if model.text is None else (model.text.vocab_key,)
