"""Translation: a target sentence, word by word, given its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.config import positive
from headway.decoding.beam import Penalty, StopRule, expect_length_penalty
from headway.decoding.constraints import Constraints
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task
from headway.tasks.scheduled_sampling import ScheduledSampling

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal, Reading
    from headway.tasks.training_task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation(Task):
    """How pairs are read, and the default decoding settings of a finished model."""

    name: ClassVar[str] = "translation"
    title: ClassVar[str] = "translation model"
    aliases: ClassVar[tuple[str, ...]] = ("text-to-text",)  # its general name: any text from any other

    max_length: int = 256  # in tokens; longer training pairs are left out, and counted
    beam: int = 4  # hypotheses kept at each step
    length_penalty: float = 0.6  # α
    penalty: Penalty = "gnmt"  # by what α divides: GNMT's ((5 + n) / 6)^α, or the mean's n^α
    max_extra: int = 50  # a translation may be this much longer than its source
    scheduled: ScheduledSampling | None = None  # none: teacher forcing, every input is a gold token

    def __post_init__(self) -> None:
        for name in ("max_length", "beam"):
            positive(f"task.{name}", getattr(self, name))
        positive("task.max_extra", self.max_extra, least=0)
        expect_length_penalty("task.length_penalty", self.length_penalty)

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.translation.recognise import recognise

        return recognise(spec, given)

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """The languages, or the columns of a table."""
        from headway.tasks.translation.recognise import reading

        return reading(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read parallel text, train the tokenizers that are missing, encode."""
        from headway.tasks.translation.data import prepare

        return prepare(self, request)

    def stand_in(self, request: DataRequest) -> TrainingTask:
        """Sentence pairs of one length."""
        from headway.tasks.translation.data import stand_in

        return stand_in(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.translation.pipeline import TranslationPipeline

        return TranslationPipeline

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabularies."""
        return ("vocab", "source_vocab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How sources are decoded; None stands for what the run's task says."""

    beam: int | None = None
    length_penalty: float | None = None
    n_best: int = 1
    stop_rule: StopRule = "first"
    groups: int = 1
    diversity: float = 0.5
    max_extra: int | None = None
    constraints: Constraints | None = None


PLAIN = Decoding()
