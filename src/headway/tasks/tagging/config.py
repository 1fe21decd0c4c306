"""Tagging: sentences in which each word has a tag, such as a part of speech or a name's kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headway.config import positive
from headway.data.words import WordKind
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagging(Task):
    """Words with a tag each; the first token of a word carries it (Devlin et al. 2019, section 5.3)."""

    name: ClassVar[str] = "tagging"
    title: ClassVar[str] = "tagger"
    unit: ClassVar[str] = "words"
    length_key: ClassVar[str] = "length"
    special_tokens: ClassVar[tuple[str, ...]] = ("pad", "start", "stop")
    models: ClassVar[tuple[str, ...]] = ("token-classifier",)

    length: int = 128  # tokens of a row, the special ones included; longer sentences are divided at words
    scheme: Literal["auto", "iob2", "iob1", "plain"] = "auto"  # what tags are; auto: entities if all are O, B-… or I-…
    words: WordKind = "punctuation"  # how a text is divided: by `tag`, and in JSONL with spans

    def __post_init__(self) -> None:
        positive("task.length", self.length, least=3)

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.tagging.recognise import recognise

        return recognise(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read sentences with tags, train a tokenizer if the run has none, encode."""
        from headway.tasks.tagging.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.tagging.pipeline import TaggingPipeline

        return TaggingPipeline

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for another model, or one that has fewer positions than a row may have tokens."""
        Task.check_model(self, model)
        self.expect_positions(model)

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary and the tags."""
        return ("classes",) if model.text is None else (model.text.vocab_key, "classes")
